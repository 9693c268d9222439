"""What is measured, and in which order: each round goes through all systems for each row."""

import sys
import time
from dataclasses import dataclass

from compare import arithmetic, runs, states
from compare.processes import RunFailed

SIZES = [
    ("8-128 B", 8, 128),
    ("8-16384 B", 8, 16384),
    ("64 B", 64, 64),
    ("1 KiB", 1 << 10, 1 << 10),
    ("16 KiB", 1 << 14, 1 << 14),
    ("64 KiB", 1 << 16, 1 << 16),
    ("1 MiB", 1 << 20, 1 << 20),
]
FAN_IN_SIZES = [("32 B", 32, 32), ("8-128 B", 8, 128)]
FAN_IN = (1, 2, 4, 8)
LOADS = (10, 50, 90)  # per cent of a system's own maximum
CONNECTIONS = (1, 10, 100, 1000)
# What is asked: label, bytes both ways, requests in flight, tasks that a request starts.
ASKED = [
    ("64 B, 1 in flight", 64, 1, 0),
    ("64 B, 64 in flight", 64, 64, 0),
    ("JSON, 10 tasks, 1000 in flight", 256, 1000, 10),
    ("JSON, 10 tasks, 10000 in flight", 256, 10_000, 10),
]
MEMORY_LIMITS = (50, 500, 1000, 2000)  # MiB of a service of many tasks
# What a cache is asked: label, arguments of `atbus bench cache`.
CACHED = [
    ("100 B to 4 KiB, 32 MiB", ("--mix", "web", "--memory", "32M", "--in-flight", "64")),
    ("525,312 B, 256 MiB", ()),
    ("100 B to 4 KiB, 32 MiB, 16 clients", ("--mix", "web", "--memory", "32M", "--in-flight", "16",
                                            "--clients", "16")),
    ("525,312 B, 2 GiB", ("--memory", "2G", "--cases", "16352", "--gets", "65408")),
]
COMMON_RATE = 20_000  # messages per second that every system here can carry
FULL_SPEED = 1e12  # a rate nobody reaches
TRIES = 3  # of a run during which the cores move


@dataclass(frozen=True)
class Plan:
    """How long and how often."""

    rounds: int
    extra_rounds: int  # of further variants of a system
    seconds: float
    side_rounds: int  # of all but throughput and round trips
    paced_seconds: float
    asked_seconds: float
    pause_s: float
    stop_s: float
    fan_in_sizes: tuple
    connections: tuple
    asked_rounds: int  # of requests and caches
    memory_limits: tuple
    cached: int  # of CACHED, the first ones


QUICK = Plan(3, 1, 0.5, 1, 0.7, 1.0, 5.0, 3.0, tuple(FAN_IN_SIZES[:1]), CONNECTIONS[:3],
             1, MEMORY_LIMITS[:1], 2)
FULL = Plan(3, 2, 0.6, 1, 2.0, 3.0, 5.0, 3.0, tuple(FAN_IN_SIZES), CONNECTIONS, 3, MEMORY_LIMITS,
            len(CACHED))
# To see that everything runs; its figures are worth nothing.
SMOKE = Plan(1, 1, 0.3, 1, 0.3, 0.5, 0.5, 0.5, tuple(FAN_IN_SIZES[:1]), CONNECTIONS[:2],
             1, MEMORY_LIMITS[:1], 1)


class Campaign:
    """All runs of a comparison. What fails is a result too."""

    def __init__(self, systems, plan, out=sys.stderr, what="", watch=None):
        self.systems = [s for s in systems if not s.asks and not s.stores and not s.only_paced]
        self.only_paced = [s for s in systems if s.only_paced]
        self.asking = [s for s in systems if s.asks]
        self.storing = [s for s in systems if s.stores]
        self.plan = plan
        self.results = []
        self._out = out
        self._what = what  # only rows whose label has this in it
        self._watch = watch  # of states.Watch; None: how far the cores are from each other is not measured
        self._given_up = {}  # row and system: it hung, and would again

    def run(self, row, system, round_number, measure, **facts):
        if self._what not in facts.get("what", ""):
            return None
        key = (row, system.name, *facts.values())
        if self._given_up.get(key, 0) >= 2:
            return None
        start = time.monotonic()
        for _ in range(TRIES):
            entry = {"row": row, "system": system.name, "round": round_number, **facts}
            try:
                if self._watch:
                    found, entry["cache_line_us"] = self._watch.during(measure)
                    entry.update(found)
                else:
                    entry.update(measure())
            except RunFailed as why:
                entry["failed"] = str(why)
                entry["cache_line_us"] = getattr(why, "cache_line_us", [])
                self._given_up[key] = self._given_up.get(key, 0) + 1
                break
            if states.is_steady(entry):
                break
        self.results.append(entry)
        words = " ".join(str(value) for value in facts.values())
        outcome = entry.get("failed") or _headline(entry)
        print(f"{row:12} {words:12} {system.name:24} {outcome}  "
              f"({time.monotonic() - start:.1f} s)", file=self._out, flush=True)
        return entry

    def _main(self):
        return [s for s in self.systems if not s.extra]

    def _rivals_and_ours(self):
        return [s for s in self._main() if not s.limit and not s.in_process]

    def throughput(self, round_number):
        for label, low, high in SIZES:
            for system in self.systems:
                skipped = system.extra and round_number >= self.plan.extra_rounds
                if high <= system.largest and not skipped:
                    self.run("throughput", system, round_number,
                             lambda s=system, r=(low, high): runs.stream(s, r, self.plan.seconds),
                             size=label)

    def round_trips(self, round_number):
        for waiting in ("polling", "blocking"):
            for system in self._main():
                if not system.in_process:
                    self.run("round trip", system, round_number,
                             lambda s=system, b=waiting == "blocking": runs.round_trip(
                                 s, 64, self.plan.seconds, b),
                             waiting=waiting)

    def _paced(self, system, rate, asleep=False):
        """asleep: both sides sleep between messages, also the sender, who is then a little late."""
        receive, send = (["--blocking"], ["--blocking"]) if asleep else (None, [])
        return runs.stream(system, (64, 64), self.plan.paced_seconds, common=["--paced"],
                           receive_arguments=receive, send_arguments=["--rate", rate, *send])

    def latency_under_load(self, round_number):
        for system in [*self._rivals_and_ours(), *self.only_paced]:
            most = self.run("paced maximum", system, round_number,
                            lambda s=system: self._paced(s, FULL_SPEED))
            if not most or "failed" in most or not most["rate"]:
                continue
            for load in LOADS:
                entry = self.run("paced", system, round_number,
                                 lambda s=system, r=most["rate"] * load / 100: self._paced(s, r),
                                 load=load)
                # A share of what was reached in another state says nothing.
                if entry and entry.get("cache_line_us"):
                    entry["cache_line_us"] = most.get("cache_line_us", []) + entry["cache_line_us"]
            if not system.only_paced:
                self.run("same rate", system, round_number,
                         lambda s=system: self._paced(s, COMMON_RATE, asleep=True))

    def fan_in(self, round_number):
        for label, low, high in self.plan.fan_in_sizes:
            for senders in FAN_IN:
                for system in self._rivals_and_ours():
                    if system.fan_in:
                        self.run("fan-in", system, round_number,
                                 lambda s=system, n=senders, r=(low, high): runs.stream(
                                     s, r, self.plan.seconds, senders=n),
                                 size=label, senders=senders)

    def disturbances(self, round_number):
        for system in self._rivals_and_ours():
            self.run("stopped reader", system, round_number,
                     lambda s=system: runs.stopped_reader(s, COMMON_RATE, self.plan.pause_s))
            if not system.fan_in:
                continue
            for what in ("none", "kill", "stop"):
                self.run("disturbed", system, round_number,
                         lambda s=system, w=what: runs.disturbed_sender(
                             s, w, 1000, self.plan.stop_s),
                         what=what)

    def connections(self, round_number):
        for system in self._rivals_and_ours():
            if system.holds_many:
                for count in self.plan.connections:
                    self.run("connections", system, round_number,
                             lambda s=system, c=count: runs.idle_connections(s, c), count=count)

    def requests(self, round_number):
        for label, size, in_flight, fan_out in ASKED:
            for system in self.asking:
                if fan_out or not system.has_tasks:
                    self.run("request", system, round_number,
                             lambda s=system, b=size, n=in_flight, f=fan_out: runs.requests(
                                 s, b, n, self.plan.asked_seconds, f),
                             what=label)

    def bounded_requests(self, round_number):
        label, size, in_flight, fan_out = ASKED[-1]
        for limit in self.plan.memory_limits:
            for system in self.asking:
                self.run("bounded request", system, round_number,
                         lambda s=system, m=limit: runs.requests(
                             s, size, in_flight, self.plan.asked_seconds, fan_out, memory_mib=m),
                         what=label, count=limit)

    def caches(self, round_number):
        for label, arguments in CACHED[:self.plan.cached]:
            # The last one takes a minute.
            if round_number == 0 or label != CACHED[-1][0]:
                for system in self.storing:
                    self.run("cache", system, round_number,
                             lambda s=system, a=arguments: runs.cache(s, a), what=label)

    def everything(self):
        for number in range(max(self.plan.rounds, self.plan.side_rounds)):
            if number < self.plan.rounds:
                self.throughput(number)
                self.round_trips(number)
            if number < self.plan.asked_rounds:
                self.requests(number)
                self.caches(number)
            if number < self.plan.side_rounds:
                self.latency_under_load(number)
                self.fan_in(number)
                self.disturbances(number)
                self.connections(number)
                self.bounded_requests(number)
        return self.results


def _headline(entry):
    if "ns_per_operation" in entry:
        return (f"{entry['ns_per_operation']:.0f} ns, {entry['hit_percent']:.1f} % hits, "
                f"{entry['peak_mib']:.0f} MiB")
    if "per_second" in entry:
        bad = ", ".join(f"{entry[name]} {name}" for name in ("corrupt", "unanswered")
                        if entry[name])
        return (f"{entry['per_second']:.0f} /s, p50 {entry['rtt_ns']['p50'] / 1000:.1f} us, "
                f"{entry['service_cpu']:.2f} CPU, {entry['service_mib']:.0f} MiB"
                + (f", {bad}" if bad else ""))
    if "rtt_ns" in entry:
        return f"{entry['rtt_ns']['p50'] / 1000:.2f} us"
    if "rate" in entry:
        lost = arithmetic.LOSSES
        bad = ", ".join(f"{entry[name]} {name}" for name in lost if entry[name])
        return f"{entry['rate'] / 1e6:.3f} M/s" + (f", {bad}" if bad else "")
    return "done"
