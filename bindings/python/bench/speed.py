"""Measures the module beside others: two processes, 64 bytes, the systems in turns.

usage: speed.py [--messages N] [--trips N] [--rounds N] [--json FILE]

Rows: messages sent one by one and received (atbus: in batches), and round trips. A system that is not installed is
left out: `pip install pyzmq nats-py eclipse-zenoh iceoryx2`, and nats-server of the distribution.
"""

import argparse
import json
import multiprocessing
import os
import statistics
from queue import Empty

from systems import ALL, missing


def _work(what, place, count, queue):
    queue.put(("took", what(place, count, lambda: queue.put(("ready", None)))))


def _beside(system, place, other, here, count):
    """Runs `other` in a process and `here` in this one; returns what both return, or None if messages were lost."""
    getattr(system, "begin", lambda place: None)(place)
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=_work, args=(other, place, count, queue))
    process.start()
    try:
        queue.get(timeout=30)
        mine = here(place, count)
        try:
            _, its = queue.get(timeout=20)
        except Empty:
            print(f"{system.name}: what was sent has not all come within 20 s; that run does not count")
            return None
        process.join(30)
        return mine, its
    finally:
        process.kill()
        process.join()
        system.clean(place)


def _say(system, what, unit, values, rows):
    if not values:
        return
    values = sorted(values)
    rows.append({"language": "Python", "system": system.name, "what": what, "unit": unit, "values": values})
    print(f"{system.name:24} {what:10} {statistics.median(values):8.2f} {unit}"
          f"  ({values[0]:.2f} to {values[-1]:.2f})")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--trips", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the values there, for tools/compare/languages.py")
    wanted = parser.parse_args()
    for system in ALL:
        if missing(system):
            print(f"{system.name}: {missing(system)}")
    systems = [system for system in ALL if not missing(system)]
    sent, received, trips = ({system: [] for system in systems} for _ in range(3))
    for round in range(wanted.rounds):
        for system in systems:
            place = f"{os.getpid()}-{round}"
            done = _beside(system, place, system.receive, system.send, wanted.messages)
            if done is not None:
                sent[system].append(wanted.messages / done[0] / 1e6)
                received[system].append(wanted.messages / done[1] / 1e6)
            done = _beside(system, place + "-trips", system.echo, system.ask, wanted.trips)
            if done is not None:
                trips[system].append(statistics.median(done[0]) / 1000)
    rows = []
    for system in systems:
        _say(system, "sent", "M/s", sent[system], rows)
        _say(system, "received", "M/s", received[system], rows)
        _say(system, "round trip", "us", trips[system], rows)
    if wanted.json:
        with open(wanted.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
