"""How far the cores were from each other in each run. On a virtual machine they may share a cache in one second and not
in the next, which changes figures by up to a factor of five: those of different states are never put together."""

import json
import subprocess

from compare import arithmetic

SAME_STATE = 1.5  # times of one state differ by less
MOMENT_S = 0.02
# Rows about seconds and memory, for which it does not matter: they are with the state with the most runs.
ANY_STATE = ("stopped reader", "disturbed", "connections")
FEW = 0.02  # of all runs: a state with fewer has no tables


class Watch:
    """Measures how many microseconds a cache line takes from one core to the other and back, before and after each run.
    What was measured after one counts for the next one too."""

    def __init__(self, programs):
        self._command = [f"{programs}/atbus", "bench", "limit", "--cache-line", "--seconds", str(MOMENT_S),
                         "--json", "-"]
        self._last = None

    def _look(self):
        try:
            told = subprocess.run(self._command, capture_output=True, text=True, timeout=20, check=False)
            return json.loads(told.stdout)["cache_line_round_trip_us"]
        except (OSError, subprocess.SubprocessError, ValueError, KeyError):
            return None

    def during(self, measure):
        """What `measure` returns or raises, and the times around it; none if they can't be measured."""
        before = self._last or self._look()
        try:
            return measure(), self._times(before)
        except Exception as why:
            why.cache_line_us = self._times(before)
            raise

    def _times(self, before):
        self._last = self._look()
        return [us for us in (before, self._last) if us]


def is_steady(entry):
    times = entry.get("cache_line_us") or [0]
    return max(times) <= SAME_STATE * min(times)


class State:
    """Runs while a cache line took the same time."""

    def __init__(self, entries):
        self.entries = entries
        self.us = arithmetic.spread([us for entry in entries for us in entry.get("cache_line_us") or ()])

    def text(self):
        if not self.us:
            return "how long a cache line takes was not measured"
        return (f"a cache line takes {self.us['median']:.2g} us there and back "
                f"({self.us['low']:.2g}-{self.us['high']:.2g})")


def split(results):
    """The state with the most runs first, and how many runs are in none: the cores moved, or hardly another run was in
    that state."""
    anywhere = [entry for entry in results if entry["row"] in ANY_STATE]
    results = [entry for entry in results if entry["row"] not in ANY_STATE]
    steady = [entry for entry in results if is_steady(entry)]

    def us_of(entry):
        times = entry.get("cache_line_us") or [0]
        return sum(times) / len(times)

    groups = []
    for entry in sorted(steady, key=us_of):
        if not groups or us_of(entry) > SAME_STATE * us_of(groups[-1][0]):
            groups.append([])
        groups[-1].append(entry)
    groups = [group for group in groups if len(group) >= FEW * len(results)]
    # In the order of measuring.
    place = {id(entry): number for number, entry in enumerate(results)}
    states = [State(sorted(group, key=lambda entry: place[id(entry)])) for group in groups]
    states.sort(key=lambda state: -len(state.entries))
    if anywhere:
        states = states or [State([])]
        states[0].entries += anywhere
    return states, len(results) - sum(map(len, groups))
