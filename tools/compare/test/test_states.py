"""Runs by the state of the machine, of figures that were never measured."""

import io
import unittest

from compare import report, rows, states
from compare.processes import RunFailed
from compare.summary import Summary
from test.test_report import document, throughput
from test.test_rows import fake


FIGURES = {"rate": 1e6, "lost": 0, "corrupt": 0, "reordered": 0}


def run_at(us, rate=1e6, **more):
    return throughput("rival ipc", rate, cache_line_us=[us, us], **more)


class States(unittest.TestCase):
    def test_are_never_mixed(self):
        found, moved = states.split([run_at(0.33, 1), run_at(0.06, 2), run_at(0.05, 3), run_at(0.07, 4)])
        self.assertEqual([[entry["rate"] for entry in state.entries] for state in found], [[2, 3, 4], [1]])
        self.assertEqual(moved, 0)

    def test_leave_out_runs_during_which_the_cores_moved(self):
        found, moved = states.split([run_at(0.06), {**run_at(0.06), "cache_line_us": [0.06, 0.33]}])
        self.assertEqual((len(found), len(found[0].entries), moved), (1, 1, 1))

    def test_keep_apart_what_was_not_measured(self):
        found, moved = states.split([throughput("rival ipc", 1), run_at(0.06), run_at(0.06)])
        self.assertEqual([len(state.entries) for state in found], [2, 1])
        self.assertEqual(moved, 0)
        self.assertIn("was not measured", found[1].text())

    def test_share_what_does_not_depend_on_them(self):
        slow = {**run_at(0.33), "row": "disturbed"}
        found, moved = states.split([run_at(0.06), run_at(0.06), run_at(0.33), slow])
        self.assertEqual(([len(state.entries) for state in found], moved), ([3, 1], 0))

    def test_of_hardly_any_runs_are_left_out(self):
        found, moved = states.split([run_at(0.06)] * 60 + [run_at(0.33)])
        self.assertEqual((len(found), moved), (1, 1))

    def test_have_tables_of_their_own(self):
        all = document([run_at(0.33, 3e6), run_at(0.06, 2e6), run_at(0.06, 2e6)])
        found, _ = states.split(all["results"])
        text = report.markdown([], report._sections(all, found), {}, "raw")
        first, second = text.split("# 1 runs: a cache line takes 0.33 us")
        self.assertIn("| rival ipc | 2 ", first)
        self.assertIn("| rival ipc | 3 ", second)
        self.assertIn("# 2 runs: a cache line takes 0.06 us", first)


class Watched(unittest.TestCase):
    """A campaign on a machine whose cores move."""

    def campaign(self, times):
        class Watch:
            def during(self, measure):
                next_times = times.pop(0)
                try:
                    return measure(), next_times
                except RunFailed as why:
                    why.cache_line_us = next_times
                    raise

        return rows.Campaign([fake("a")], rows.QUICK, out=io.StringIO(), watch=Watch())

    def test_repeats_a_run_during_which_they_moved(self):
        of = self.campaign([[0.06, 0.33], [0.33, 0.33], [9]])
        entry = of.run("throughput", fake("a"), 0, lambda: FIGURES)
        self.assertEqual(entry["cache_line_us"], [0.33, 0.33])
        self.assertEqual(len(of.results), 1)

    def test_gives_up_after_some_tries(self):
        of = self.campaign([[0.06, 0.33]] * rows.TRIES)
        of.run("throughput", fake("a"), 0, lambda: FIGURES)
        self.assertEqual(states.split(of.results), ([], 1))

    def test_does_not_repeat_what_fails(self):
        def fail():
            raise RunFailed("hangs")

        of = self.campaign([[0.06, 0.33]])
        self.assertEqual(of.run("throughput", fake("a"), 0, fail)["failed"], "hangs")

    def test_a_share_of_what_was_reached_in_another_state_counts_nowhere(self):
        of = self.campaign([[0.06, 0.06]] + [[0.33, 0.33]] * 4)
        of._paced = lambda *_, **__: FIGURES
        of.latency_under_load(0)
        loads = [entry for entry in of.results if entry["row"] == "paced"]
        self.assertEqual([states.is_steady(entry) for entry in loads], [False] * 3)


class Published(unittest.TestCase):
    def test_are_beside_what_was_measured(self):
        from compare.tables import bandwidth, throughput as table

        summary = Summary(document([run_at(0.06), run_at(0.06, size="8-16384 B")]))
        self.assertIn(["ancestor, IPv6, published", "2.8", "-", "-", "-", "-"], table(summary).body)
        self.assertIn(["ancestor, IPv6, published", "-", "0.6", "-", "-", "-"], bandwidth(summary).body)


if __name__ == "__main__":
    unittest.main()
