"""Fits a model of a fleet on small simulated ones, predicts a large one, simulates that too, and writes
tables and plots of both.

usage: report.py PROGRAM OUTPUT [--reuse | --registry]

PROGRAM is simulate_fleet, OUTPUT the folder of the report. --reuse draws the figures that are there; --registry
simulates only the events of a registry, and keeps the others' figures.
"""

import json
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

# Nodes and relays, a hundred leaves a relay. The model knows all but the last one.
FLEETS = [(500, 5), (1000, 10), (2000, 20), (4000, 40), (10000, 100)]

# Column, what it is, and what it is divided by. What heals is bounded by the pause between two attempts.
COLUMNS = [
    ("healed_ms", "time to heal, ms", None),
    ("root_relayed", "messages passed on by the root", None),
    ("relay_relayed", "messages passed on by a relay", "relays"),
    ("root_registrations", "registrations at the root", None),
    ("relay_registrations", "registrations at a relay", "relays"),
    ("dials", "attempts to connect, by a node", "nodes"),
    ("heap_bytes", "KiB of heap, by a node", "nodes"),
]
# Of events with a registry, too.
REGISTRY_COLUMNS = [
    ("registry_announcements", "leases and records put, at the registry", None),
    ("registry_looks", "lists, watches and checks, at the registry", None),
    ("registry_keep_alives", "leases kept alive, at the registry", None),
    ("registry_of_leaves", "of these requests, by leaves", None),
    ("registry_peak", "most requests within a second", None),
    ("registry_unanswered", "attempts while the registry was lost", None),
    ("registry_unanswered_peak", "most of these within a second", None),
]
# Powers of the number of nodes, from the simplest on; 1/n is what is different at the edge.
SHAPES = {(0,): "constant", (1,): "n", (0, -1): "constant + 1/n", (0, 1): "constant + n", (2,): "n²",
          (1, 2): "n + n²"}
EVENTS = {
    "start": "all start at once",
    "relay_lost": "a relay is lost for 10 s",
    "half_of_the_relays_lost": "half of the relays are lost for 10 s",
    "root_lost": "the root is lost for 10 s",
    "rolling_restart": "each process restarts once within 60 s",
    "crowd": "all leaves restart at once",
    "registry_there": "a quarter of the relays restart, one at a new address, with a registry",
    "registry_lost": "the same, the registry is lost for 60 s",
}


def simulate(program, nodes, relays, registry):
    print(f"{nodes} nodes, {relays} relays{', registry' if registry else ''}", flush=True)
    run = subprocess.run([program, *(["registry"] if registry else []), str(nodes), str(relays)],
                         stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode != 0:
        sys.exit(f"a fleet of {nodes} nodes did not come through: {run.stdout}")
    return rows


def is_of_registry(event):
    return event.startswith("registry_")


def columns_of(event):
    return COLUMNS + (REGISTRY_COLUMNS if is_of_registry(event) else [])


def value_of(row, column, divisor):
    value = row[column] / (row[divisor] if divisor else 1)
    return value / 1024 if column == "heap_bytes" else value


def fit(column, points):
    """A function of the number of nodes by least squares, weighted so that each size counts alike; and its shape."""
    sizes, values = (np.array(one, float) for one in zip(*points))
    weights = 1 / np.maximum(values, 1)

    def solve(powers):
        terms = np.stack([sizes ** power for power in powers], axis=1) * weights[:, None]
        coefficients = np.linalg.lstsq(terms, values * weights, rcond=None)[0]
        return coefficients, np.sum((terms @ coefficients - values * weights) ** 2)

    # The shape that explains the points best; of those that do it almost as well, the simplest.
    fits = [(*solve(powers), powers) for powers in ([(0,)] if column == "healed_ms" else SHAPES)]
    least = min(error for _, error, _ in fits)
    coefficients, _, powers = next(one for one in fits if one[1] <= 1.1 * least + len(points) * 0.01 ** 2)
    return (lambda n: sum(c * n ** p for c, p in zip(coefficients, powers)), SHAPES[powers])


def short(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def tables(rows):
    sizes = sorted({row["nodes"] for row in rows})
    largest = sizes[-1]
    lines = []
    for event, words in EVENTS.items():
        of_event = {row["nodes"]: row for row in rows if row["event"] == event}
        lines += [f"## {words[0].upper() + words[1:]}",
                  "| | " + " | ".join(f"{n:,} nodes" for n in sizes) + f" | model | predicts for {largest:,} |",
                  "| --- |" + " ---: |" * len(sizes) + " --- | ---: |"]
        for column, what, divisor in columns_of(event):
            values = {n: value_of(of_event[n], column, divisor) for n in sizes}
            model, shape = fit(column, [(n, y) for n, y in values.items() if n != largest])
            lines.append(f"| {what} | " + " | ".join(short(values[n]) for n in sizes) +
                         f" | {shape} | {short(max(model(largest), 0))} |")
        of = of_event[largest]
        lines += ["", f"Of {largest:,} nodes: {of['delivered']:,} messages delivered, {of['redelivered']:,} more "
                  f"delivered with the mark of what may have come before, {of['reported']:,} reported as not "
                  f"delivered, {of['refused']:,} refused at once, {of['sender_died']:,} ended with their sender. "
                  f"Without an outcome: {of['without_outcome']}; twice without a mark: {of['repeated_unmarked']}.", ""]
    return "\n".join(lines)


def plot(rows, output):
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "atbus", "axes.spines.top": False,
                         "axes.spines.right": False, "axes.grid": True, "grid.color": "#e4e4e4",
                         "legend.frameon": False})
    sizes = sorted({row["nodes"] for row in rows})
    figure, axes = plt.subplots(2, 2, figsize=(11, 8))
    shown = ["healed_ms", "root_relayed", "relay_relayed", "heap_bytes"]
    for axis, name in zip(axes.flat, shown):
        column, what, divisor = next(one for one in COLUMNS if one[0] == name)
        for event, words in EVENTS.items():
            values = [(row["nodes"], value_of(row, column, divisor)) for row in rows if row["event"] == event]
            model, _ = fit(column, [point for point in values if point[0] != sizes[-1]])
            line, = axis.plot(*zip(*sorted(values)), marker="o", markersize=4, linestyle="none", label=words)
            axis.plot(sizes, [max(model(n), 0) for n in sizes], color=line.get_color(), linewidth=1)
        axis.set_title(what)
        axis.set_xlabel("nodes")
        axis.set_ylim(bottom=0)
        if name == "root_relayed":
            axis.set_yscale("symlog", linthresh=100)
    axes.flat[0].legend(fontsize=8, loc="center right", bbox_to_anchor=(1, 0.64))
    figure.tight_layout()
    figure.savefig(output / "fleet.svg", metadata={"Date": None})
    # Lines without blanks at their ends, as the rest of the project has them.
    text = (output / "fleet.svg").read_text()
    (output / "fleet.svg").write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")


HEAD = """# A fleet of 10,000 nodes, simulated
Made by `tools/script/scale.sh`; the raw figures are in [fleet.json](fleet.json). A root, relays below it, a
hundred leaves below each relay, each process a host of its own. Each leaf sends to one of eight others once a second.
The nodes are real, the network and the clock are not: a link takes 50 to 500 us and the processor no time. The models
are fitted on all sizes but the largest, and predict that one: dots are simulated, lines are the model.
[What follows from it](../fleet.md#how-large-a-fleet-can-be).

In the last two events all nodes have a directory. The root and the relays register with a lease of 15 s; all others
only read, which is more than a fleet needs: [leaves of relays that don't move](../fleet.md#discovery-by-etcd) do without.
Directories ask as that of etcd does; nodes look every 2 s. Relays restart within 50 s, one of them at a new
address after 10 s. While the registry is lost it refuses all requests, and leases end. The time to heal is that until
all leaves of the relay that has moved have it as their parent again: from its start, or from when the registry is back.

![Time to heal, messages and memory by the size of the fleet](fleet.svg)

"""


def main(words):
    option = words[2] if len(words) == 3 else None
    if len(words) not in (2, 3) or option not in (None, "--reuse", "--registry"):
        sys.exit(__doc__)
    output = Path(words[1])
    raw = output / "fleet.json"
    rows = []
    if option == "--reuse":
        rows = json.loads(raw.read_text())
    elif option == "--registry":
        rows = [row for row in json.loads(raw.read_text()) if not is_of_registry(row["event"])]
    if option != "--reuse":
        for nodes, relays in FLEETS:
            for registry in ([True] if option == "--registry" else [False, True]):
                rows += simulate(words[0], nodes, relays, registry)
        rows.sort(key=lambda row: (row["nodes"], list(EVENTS).index(row["event"])))
        output.mkdir(parents=True, exist_ok=True)
        raw.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    (output / "index.md").write_text(HEAD + tables(rows))
    plot(rows, output)


if __name__ == "__main__":
    main(sys.argv[1:])
