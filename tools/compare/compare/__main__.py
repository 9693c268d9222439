"""python3 -m compare run|report ...: see compare.sh, which calls it."""

import argparse
import json
import os
import signal
import sys
import time

from compare import machine, rows, states
from compare.documents import joined
from compare.systems import all_systems

PLANS = {"quick": rows.QUICK, "full": rows.FULL, "smoke": rows.SMOKE}


def chosen(systems, only):
    """Those whose name or family begins with one of the words; all without words."""
    words = [word.strip().lower() for word in only.split(",") if word.strip()]
    if not words:
        return systems
    return [s for s in systems if any(s.name.lower().startswith(word) for word in words)]


def run(arguments):
    systems = chosen(all_systems(arguments.programs), arguments.only)
    missing = {s.name: s.missing() for s in systems if s.missing()}
    for name, why in missing.items():
        print(f"missing: {name}: {why}", file=sys.stderr)
    present = [s for s in systems if s.name not in missing]
    campaign = rows.Campaign(present, PLANS[arguments.plan], what=arguments.what,
                             watch=states.Watch(arguments.programs))
    # Whoever is asked to end keeps what was measured, and ends what was started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))
    start = time.time()
    results = []
    try:
        if arguments.row:
            for number in range(arguments.rounds):
                getattr(campaign, arguments.row)(number)
        else:
            campaign.everything()
    finally:
        results = campaign.results
        document = {
            "plan": arguments.plan,
            "started": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(start)),
            "seconds": round(time.time() - start),
            "machine": machine.describe(),
            "versions": machine.versions(),
            "systems": [
                {"name": s.name, "family": s.family, "kind": s.kind, "limit": s.limit,
                 "missing": missing.get(s.name, "")} for s in systems],
            "results": results,
            "what": arguments.what,
        }
        if arguments.keep:
            with open(arguments.output, encoding="utf-8") as file:
                order = [s.name for s in all_systems(arguments.programs)]
                document = joined(json.load(file), document, order)
        os.makedirs(os.path.dirname(os.path.abspath(arguments.output)), exist_ok=True)
        with open(arguments.output, "w", encoding="utf-8") as file:
            json.dump(document, file, separators=(",", ":"))
            file.write("\n")


def report(arguments):
    from compare import report as pages  # needs matplotlib, measuring does not

    with open(arguments.raw, encoding="utf-8") as file:
        pages.write(json.load(file), arguments.directory)


def main():
    parser = argparse.ArgumentParser(prog="compare")
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help="measure")
    running.add_argument("--programs", required=True, help="folder of the C++ harnesses")
    running.add_argument("--plan", choices=PLANS, default="quick")
    running.add_argument("--only", default="", help="names or families, separated by commas")
    running.add_argument("--what", default="", help="rows whose label has this in it")
    running.add_argument("--row", choices=("throughput", "round_trips", "latency_under_load",
                                           "fan_in", "disturbances", "connections",
                                           "requests", "bounded_requests", "caches"))
    running.add_argument("--rounds", type=int, default=1, help="of --row")
    running.add_argument("--output", required=True, help="raw JSON")
    running.add_argument("--keep", action="store_true",
                         help="what the output has of other systems and rows stays")
    running.set_defaults(action=run)
    drawing = commands.add_parser("report", help="draw what was measured")
    drawing.add_argument("--raw", required=True)
    drawing.add_argument("--directory", required=True)
    drawing.set_defaults(action=report)
    arguments = parser.parse_args()
    arguments.action(arguments)


if __name__ == "__main__":
    main()
