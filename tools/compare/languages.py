"""Makes doc/comparison/languages.md and its plot of what the benchmarks of the bindings have written.

usage: languages.py FOLDER FILE...   FILE: of the benchmarks in bindings/python, bindings/go and bindings/lua
"""

import json
import math
import pathlib
import statistics
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "atbus", "axes.spines.top": False,
                     "axes.spines.right": False})

HEAD = """# From other languages
Two processes, 64 bytes, the systems in turns; medians with the lowest and the highest round. "Sent": one by one, until
the system has taken all. "Received": from the first message to the last one; atbus hands over batches. Round trips: one
at a time; atbus and iceoryx2 poll, the others wait. A run in which some messages never came does not count; the table
says how many those were.

![Messages and round trips](languages.svg)
"""


def _groups(rows):
    groups = {}
    for row in rows:
        groups.setdefault((row["language"], row["what"], row["unit"]), []).append(row)
    return groups


def page(rows):
    text = HEAD
    for (language, what, unit), all in _groups(rows).items():
        text += f"\n## {language}: {what}\n| system | {unit} |\n| --- | --- |\n"
        rounds = max(len(row["values"]) for row in all)
        for row in all:
            low, high = min(row["values"]), max(row["values"])
            lost = rounds - len(row["values"])
            text += f"| {row['system']} | {statistics.median(row['values']):.3g} ({low:.3g}-{high:.3g})"
            text += f"; {lost} of {rounds} runs do not count |\n" if lost else " |\n"
    return text


def plot(rows):
    groups = _groups(rows)
    lines = math.ceil(len(groups) / 3)
    figure, grid = plt.subplots(lines, 3, figsize=(12.6, 2.6 * lines), squeeze=False)
    panels = grid.flatten()
    for panel in panels[len(groups):]:
        panel.set_visible(False)
    for panel, ((language, what, unit), all) in zip(panels, groups.items()):
        all = all[::-1]
        middles = [statistics.median(row["values"]) for row in all]
        ours = [row["system"].startswith("atbus") for row in all]
        panel.barh([row["system"] for row in all], middles,
                   color=["#c1121f" if own else "#577590" for own in ours])
        for at, value in enumerate(middles):
            panel.text(value, at, f" {value:.3g}", va="center", fontsize=8)
        panel.set_title(f"{language}: {what}, {unit}", fontsize=10)
        panel.tick_params(labelsize=8)
        panel.margins(x=0.18)
    figure.tight_layout()
    return figure


def main():
    folder = pathlib.Path(sys.argv[1])
    rows = [row for name in sys.argv[2:] for row in json.loads(pathlib.Path(name).read_text())]
    (folder / "languages.md").write_text(page(rows))
    plot(rows).savefig(folder / "languages.svg", metadata={"Date": None})


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main()
