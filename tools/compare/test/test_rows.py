"""The order of a comparison, without running any of it."""

import io
import unittest
from types import SimpleNamespace
from unittest import mock

from compare import rows
from compare.processes import RunFailed


def fake(name, **more):
    facts = {"extra": False, "limit": False, "in_process": False, "fan_in": True,
             "holds_many": False, "only_paced": False, "asks": False, "stores": False, "largest": 1 << 30, **more}
    return SimpleNamespace(name=name, **facts)


def measured(plan, systems, row, rounds, result=None):
    """(round, system, size) of all runs of a row."""
    found = result or {"rate": 1.0, "lost": 0, "corrupt": 0, "reordered": 0}
    campaign = rows.Campaign(systems, plan, out=io.StringIO())
    with mock.patch("compare.runs.stream", side_effect=found if callable(found) else None,
                    return_value=found):
        for number in range(rounds):
            getattr(campaign, row)(number)
    return campaign.results


class Campaign(unittest.TestCase):
    def test_systems_take_turns_within_a_round(self):
        results = measured(rows.QUICK, [fake("a"), fake("b")], "throughput", 2)
        self.assertEqual([entry["system"] for entry in results[:4]], ["a", "b", "a", "b"])
        self.assertEqual([entry["round"] for entry in results].count(1), 2 * len(rows.SIZES))

    def test_a_quick_one_measures_further_variants_once(self):
        results = measured(rows.QUICK, [fake("a"), fake("b", extra=True)], "throughput", 3)
        of = [entry["system"] for entry in results]
        self.assertEqual((of.count("a"), of.count("b")), (3 * len(rows.SIZES), len(rows.SIZES)))

    def test_sizes_that_a_system_can_not_carry_are_left_out(self):
        results = measured(rows.QUICK, [fake("a", largest=1 << 16)], "throughput", 1)
        self.assertNotIn("1 MiB", [entry["size"] for entry in results])

    def test_a_run_that_fails_is_a_result_and_not_tried_for_ever(self):
        def fail(*_, **__):
            raise RunFailed("hangs")

        results = measured(rows.FULL, [fake("a")], "throughput", 5, fail)
        self.assertEqual({entry["failed"] for entry in results}, {"hangs"})
        self.assertEqual(len(results), 2 * len(rows.SIZES))


if __name__ == "__main__":
    unittest.main()
