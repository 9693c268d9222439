"""The harness of atbus, for a moment: nothing may be lost, and the driver must see what happens."""

import os
import sys
import time
import unittest

from compare import runs
from compare.processes import Child, MemoryGroup, RunFailed, cores
from compare.systems import all_systems

PROGRAMS = os.environ.get("COMPARE_PROGRAMS", "")
# On a machine that is slow and busy, silence does not mean that nothing follows.
PATIENT = ("--patience", 60)


def system(name):
    return next(s for s in all_systems(PROGRAMS) if s.name == name)


class AtbusHarness(unittest.TestCase):
    def stream(self, name, sizes, **more):
        found = runs.stream(system(name), sizes, 0.2, receive_arguments=PATIENT, **more)
        self.assertNotIn("problem", found)
        self.assertGreater(found["receive"]["messages"], 0)
        self.assertEqual(found["receive"]["messages"], sum(s["accepted"] for s in found["send"]))
        self.assertEqual((found["lost"], found["corrupt"], found["reordered"]), (0, 0, 0))
        self.assertGreater(found["peak_receive_kib"], 0)
        return found

    def test_loses_nothing_through_lanes(self):
        self.stream("atbus shm claim", (8, 128))

    def test_loses_nothing_through_tcp(self):
        self.stream("atbus tcp claim", (8, 16384))

    def test_loses_nothing_of_two_senders_through_a_unix_socket(self):
        self.stream("atbus unix send", (64, 64), senders=2)

    def test_loses_nothing_between_nodes(self):
        for kind in ("shm", "unix", "tcp"):
            with self.subTest(kind=kind):
                self.stream(f"atbus node {kind} claim", (8, 16384))

    def test_loses_nothing_of_two_nodes_that_send_to_one(self):
        self.stream("atbus node shm claim", (64, 64), senders=2)

    def test_measures_lateness_of_paced_messages(self):
        found = self.stream("atbus shm send", (64, 64), common=["--paced"],
                            send_arguments=["--rate", 1000])
        self.assertGreater(found["receive"]["latency_ns"]["max"], 0)

    def test_answers_every_request(self):
        for name in ("request shm", "request unix", "request tcp", "coroutines tcp"):
            for fan_out in (0, 3) if name.startswith("request") else (3,):
                with self.subTest(name=name, fan_out=fan_out):
                    found = runs.requests(system(f"atbus {name}"), 64, 20, 1, fan_out,
                                          (1000, 3000))
                    self.assertGreater(found["per_second"], 0)
                    self.assertGreater(found["service_mib"], 0)
                    self.assertEqual((found["corrupt"], found["unanswered"]), (0, 0))

    def test_bounds_the_memory_of_a_service_if_the_kernel_lets_it(self):
        try:
            group = MemoryGroup(64)
        except RunFailed as why:
            self.skipTest(str(why))
        self.addCleanup(group.close)
        child = Child(["sh", "-c", "grep -o atbus-compare.* /proc/self/cgroup >&2; exit 1"], memory=group)
        self.addCleanup(child.close)
        self.assertTrue(child.wait_end(time.monotonic() + 60))
        self.assertIn(os.path.basename(group.path), child.why())
        found = runs.requests(system("atbus request shm"), 64, 20, 0.3, memory_mib=64)
        self.assertGreater(found["per_second"], 0)

    def test_has_the_figures_of_a_cache(self):
        found = runs.cache(system("atbus cache shm"),
                           ("--memory", "16M", "--mix", "web", "--gets", "20000"))
        self.assertGreater(found["operations_per_second"], 0)
        self.assertGreater(found["hit_percent"], 0)
        self.assertEqual((found["corrupt"], found["unanswered"]), (0, 0))

    def test_goes_there_and_back(self):
        found = runs.round_trip(system("atbus shm claim"), 64, 1, True)
        self.assertEqual(found["corrupt"], 0)
        self.assertGreater(found["rtt_ns"]["max"], 0)

    def test_leaves_no_shared_memory_of_what_was_killed(self):
        before = set(os.listdir("/dev/shm"))
        runs.idle_connections(system("atbus shm claim"), 2)
        mine = f"atbus-compare-{os.getpid()}-"
        left = [name for name in set(os.listdir("/dev/shm")) - before if mine in name]
        self.assertEqual(left, [])

    def test_misses_what_a_killed_sender_can_not_say(self):
        found = runs.disturbed_sender(system("atbus shm claim"), "kill", 100, 1)
        self.assertIsNone(found["send"][0])
        self.assertEqual((found["lost"], found["corrupt"]), (0, 0))


class Children(unittest.TestCase):
    def child(self, text, **more):
        made = Child([sys.executable, "-c", text], **more)
        self.addCleanup(made.close)
        return made

    def test_one_that_fails_says_why(self):
        child = self.child("import sys; sys.exit('no such thing')")
        with self.assertRaisesRegex(RunFailed, "no such thing"):
            child.wait_ready(time.monotonic() + 60)

    def test_one_that_fails_does_not_say_where_it_is_on_this_machine(self):
        child = self.child("import sys; sys.exit('/some/folder/of-1.0/client: send to ipv4://127.0.0.1:1, see "
                           "file:///some/folder/settings.xml')")
        with self.assertRaises(RunFailed) as failed:
            child.wait_ready(time.monotonic() + 60)
        self.assertIn("failed: client: send to ipv4://127.0.0.1:1, see file://settings.xml", str(failed.exception))

    def test_one_that_crashes_is_told_by_its_signal(self):
        child = self.child("import os; os.kill(os.getpid(), 11)")
        self.assertTrue(child.wait_end(time.monotonic() + 60))
        with self.assertRaisesRegex(RunFailed, "SIGSEGV"):
            child.figures()

    def test_one_that_hangs_ends_with_all_it_has_started(self):
        child = self.child("import subprocess; p = subprocess.Popen(['sleep', '600']);"
                           "print(p.pid, flush=True); print('ready', flush=True); p.wait()")
        child.wait_ready(time.monotonic() + 60)
        self.assertFalse(child.wait_end(time.monotonic() + 0.1))
        grandchild = int(child._lines[0])
        child.close()
        self.assertEqual(child.code, -9)
        deadline = time.monotonic() + 60
        while is_alive(grandchild) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(is_alive(grandchild))

    def test_figures_are_the_last_object_printed(self):
        child = self.child("print('{\"x\": 1}'); print('{\"x\": 2}')")
        self.assertTrue(child.wait_end(time.monotonic() + 60))
        self.assertEqual(child.figures()["x"], 2)

    def test_cores_are_known(self):
        receiver, senders = cores()
        self.assertTrue(receiver and senders)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    unittest.main()
