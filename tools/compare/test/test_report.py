"""The report, made of runs that never happened. Needs no plots."""

import os
import tempfile
import unittest

from compare import model, report, targets
from compare.documents import joined
from compare.summary import Summary


def system(name, family, kind="shm", **more):
    return {"name": name, "family": family, "kind": kind, "limit": False, "missing": "", **more}


def throughput(name, rate, round_number=0, size="8-128 B", **more):
    return {"row": "throughput", "system": name, "round": round_number, "size": size, "rate": rate,
            "bytes_rate": rate * 64, "lost": 0, "corrupt": 0, "reordered": 0,
            "cpu_s_per_million": 1e6 / rate, "start_s": 0.01, "peak_receive_kib": 2048,
            "peak_send_kib": 2048, "peak_server_kib": 0, **more}


def disturbed(name, what, delay_s, **more):
    return {"row": "disturbed", "system": name, "round": 0, "what": what, "lost": 0, "corrupt": 0,
            "reordered": 0, "delay_of_other_s": delay_s, "other_accepted": 1000,
            "other_expected": 1000, **more}


def document(results, systems=None):
    return {
        "plan": "quick", "started": "2026-11-21 00:00 UTC", "seconds": 60,
        "machine": {"processor": "p", "mhz": "1", "cores": 2, "virtual": True, "memory_gib": 1,
                    "kernel": "k", "compiler": "c"},
        "versions": {"rival": "1.2.3"},
        "systems": systems or [system("atbus shm claim", "atbus"), system("rival ipc", "rival"),
                               system("absent", "absent", missing="no package")],
        "results": results,
    }


def verdicts(results, systems=None):
    lines = targets.Targets(Summary(document(results, systems))).all()
    return {target: verdict for target, verdict, _ in lines}


class Cells(unittest.TestCase):
    def test_keep_runs_of_different_sizes_apart(self):
        summary = Summary(document([throughput("rival ipc", 10), throughput("rival ipc", 30, 1),
                                    throughput("rival ipc", 99, size="64 B")]))
        self.assertEqual(summary.cell("throughput", "rival ipc", size="8-128 B").spread("rate"),
                         {"median": 20, "low": 10, "high": 30, "runs": 2})

    def test_leave_failed_runs_out_of_the_median_and_keep_the_reason(self):
        failed = {"row": "throughput", "system": "rival ipc", "round": 1, "size": "8-128 B",
                  "failed": "hangs"}
        cell = Summary(document([throughput("rival ipc", 10), failed])).cell(
            "throughput", "rival ipc", size="8-128 B")
        self.assertEqual((cell.median("rate"), cell.failures(), len(cell.good)), (10, ["hangs"], 1))


class WhatWasMeasuredLater(unittest.TestCase):
    ORDER = ["atbus shm claim", "atbus node", "rival ipc"]

    def later(self, name, rate, started="2026-11-22 00:00 UTC"):
        made = document([throughput(name, rate)], [system(name, "atbus")])
        return {**made, "started": started, "versions": {"atbus": "abc"}}

    def test_takes_its_place_and_leaves_the_rest_as_it_was(self):
        earlier = document([throughput("atbus shm claim", 10), throughput("rival ipc", 20)])
        both = Summary(joined(earlier, self.later("atbus node", 5), self.ORDER))
        self.assertEqual(both.names(), self.ORDER)
        rates = [both.of("throughput", name).median("rate") for name in self.ORDER]
        self.assertEqual(rates, [10, 5, 20])
        self.assertEqual(both.document["started"], earlier["started"])

    def test_replaces_what_was_measured_before(self):
        earlier = document([throughput("atbus shm claim", 10), throughput("rival ipc", 20)])
        both = joined(earlier, self.later("atbus shm claim", 5), self.ORDER)
        both = Summary(joined(both, self.later("atbus shm claim", 6, "later"), self.ORDER))
        self.assertEqual(both.of("throughput", "atbus shm claim").median("rate"), 6)
        self.assertEqual([time["started"] for time in both.document["later"]], ["later"])

    def test_leaves_rows_that_were_not_measured(self):
        earlier = document([disturbed("atbus node", "kill", 1), disturbed("atbus node", "stop", 2)])
        later = self.later("atbus node", 5)
        later["results"] = [disturbed("atbus node", "stop", 3)]
        later["what"] = "stop"
        both = Summary(joined(earlier, later, self.ORDER))
        delays = [both.cell("disturbed", "atbus node", what=what).median("delay_of_other_s")
                  for what in ("kill", "stop")]
        self.assertEqual(delays, [1, 3])

    def test_is_named_on_the_page(self):
        earlier = document([throughput("atbus shm claim", 10)])
        with tempfile.TemporaryDirectory() as directory:
            report.write(joined(earlier, self.later("atbus node", 5), self.ORDER), directory)
            with open(os.path.join(directory, "index.md"), encoding="utf-8") as file:
                self.assertIn("- measured at another time: atbus node: 2026-11-22 00:00 UTC, atbus abc",
                              file.read())


class Verdicts(unittest.TestCase):
    def test_first_is_reached_and_twice_is_missed_by_what_is_missing(self):
        found = verdicts([throughput("atbus shm claim", 30e6), throughput("rival ipc", 20e6)])
        self.assertEqual(found["Shared memory, 8-128 B: first"], "reached")
        self.assertEqual(found["Shared memory, 8-128 B: 2 x the best rival"], "missed by 25 %")

    def test_without_a_rival_nothing_is_reached(self):
        found = verdicts([throughput("atbus shm claim", 30e6)])
        self.assertEqual(found["Shared memory, 8-128 B: first"], "not measured")

    def test_alone_without_loss_or_stall(self):
        ours = [disturbed("atbus shm claim", what, 0.001) for what in ("none", "kill", "stop")]
        theirs = [disturbed("rival ipc", "none", 0.001), disturbed("rival ipc", "kill", 0.001),
                  disturbed("rival ipc", "stop", 3.0)]
        target = "Only one with no loss, stall or corruption when a sender is killed or stopped"
        self.assertEqual(verdicts(ours + theirs)[target], "reached")
        theirs[2]["delay_of_other_s"] = 0.002
        self.assertEqual(verdicts(ours + theirs)[target], "missed: we are, but not the only ones")
        ours[1]["lost"] = 1
        self.assertEqual(verdicts(ours + theirs)[target], "missed: atbus shm claim")


class Model(unittest.TestCase):
    def test_is_fitted_to_the_fixed_sizes_only(self):
        runs = [throughput("rival ipc", 1 / (1e-7 + 1e-10 * size), size=label)
                for label, size in model.fixed_sizes()]
        fit = model.fits(Summary(document([*runs, throughput("rival ipc", 1)])))["rival ipc"]
        self.assertAlmostEqual(fit["a"], 1e-7, delta=1e-10)
        self.assertAlmostEqual(fit["b"], 1e-10, delta=1e-13)

    def test_no_pair_exceeds_the_line(self):
        rate, pairs = model.on_the_line({"a": 0.0, "b": 1e-12}, 1000)
        self.assertAlmostEqual(rate, 12.5e9 * 0.95 / 1000)
        self.assertLess(pairs, 1)

    def test_memory_of_a_connection_is_the_slope(self):
        runs = [{"row": "connections", "system": "rival ipc", "round": 0, "count": count,
                 "receiver_kib": 1000 + 2 * count, "holder_kib": 500 + count}
                for count in (1, 10, 100)]
        self.assertAlmostEqual(
            model.kib_per_connection(Summary(document(runs)), "rival ipc"), 3)


class RequestsAndCaches(unittest.TestCase):
    SYSTEMS = [system("atbus request shm", "atbus"), system("rival tcp", "rival", "tcp"),
               system("atbus cache shm", "atbus"), system("memcached unix", "memcached", "unix")]

    @staticmethod
    def bounded(name, per_mib, limit):
        return {"row": "bounded request", "system": name, "round": 0, "what": "JSON, 10 tasks",
                "count": limit, "per_second": 100, "service_mib": 10, "per_mib": per_mib,
                "corrupt": 0, "unanswered": 0}

    @staticmethod
    def cache(name, rate, hits):
        return {"row": "cache", "system": name, "round": 0, "what": "100 B to 4 KiB",
                "operations_per_second": rate, "ns_per_operation": 1e9 / rate, "hit_percent": 70,
                "hot_hit_percent": 90, "peak_mib": 40, "hits_per_gib": hits, "server_cpu_ns": 5,
                "value_bytes_per_second": 1e9, "corrupt": 0, "unanswered": 0}

    def results(self):
        request = {**self.bounded("atbus request shm", 4, 50), "row": "request"}
        del request["count"]
        killed = {**self.bounded("rival tcp", 9, 50), "failed": "service killed by SIGKILL"}
        return [request, self.bounded("atbus request shm", 4, 50), killed,
                self.bounded("atbus request shm", 4, 500), self.bounded("rival tcp", 5, 500),
                self.cache("atbus cache shm", 5e6, 1800), self.cache("memcached unix", 1e6, 1750)]

    def test_have_tables(self):
        with tempfile.TemporaryDirectory() as directory:
            report.write(document(self.results(), self.SYSTEMS), directory)
            with open(os.path.join(directory, "index.md"), encoding="utf-8") as file:
                text = file.read()
        self.assertIn("50 MiB: requests/s", text)
        self.assertIn("service killed by SIGKILL", text)
        self.assertIn("## Cache: 100 B to 4 KiB", text)

    def test_have_verdicts(self):
        found = verdicts(self.results(), self.SYSTEMS)
        self.assertEqual(found["Requests with 10 tasks each within 500 MiB: first per MiB"],
                         "missed by 20 %")
        self.assertEqual(found["Cache, 100 B to 4 KiB, shm: 10 x memcached's speed"],
                         "missed by 50 %")
        self.assertEqual(found["Cache, 100 B to 4 KiB: hits per memory at least memcached's"],
                         "reached")


class Pages(unittest.TestCase):
    def test_show_losses_failures_and_what_is_missing(self):
        failed = {"row": "throughput", "system": "rival ipc", "round": 0, "size": "8-128 B",
                  "failed": "killed by SIGSEGV"}
        results = [throughput("atbus shm claim", 30e6, lost=17), failed]
        with tempfile.TemporaryDirectory() as directory:
            report.write(document(results), directory)
            for name in ("index.md", "index.html"):
                with open(os.path.join(directory, name), encoding="utf-8") as file:
                    text = file.read()
                self.assertIn("absent: no package", text)
                self.assertIn("killed by SIGSEGV", text)
                self.assertRegex(text, r"\b17\b")
                self.assertIn("rival 1.2.3", text)


if __name__ == "__main__":
    unittest.main()
