"""Measures what directories cost a real etcd, by their number, and writes tables and plots of it.

usage: etcd_report.py PROGRAM OUTPUT [--reuse]

PROGRAM is etcd_load, OUTPUT the folder of the report. --reuse draws the figures that are there.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from report import fit, plt, short

# The model knows all but the last one.
SIZES = [25, 50, 100, 200, 400]
# Column, what it is, and what it is multiplied by.
COLUMNS = [
    ("start_ms", "all know all others after, ms", 1),
    ("start_requests", "requests until then", 1),
    ("start_cpu_s", "etcd's processor time until then, s", 1),
    ("requests_per_s", "requests a second at rest", 1),
    ("core", "etcd's share of a core at rest, %", 100),
    ("memory", "etcd's memory, MiB", 1 / 2**20),
    ("newcomer_ms", "all know a newcomer after, ms", 1),
]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_until_healthy(url):
    deadline = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(url + "/health", timeout=5) as answer:
                if json.load(answer).get("health") == "true":
                    return
        except OSError:  # it does not listen yet
            pass
        if time.monotonic() > deadline:
            sys.exit(f"etcd at {url} is not healthy after 30 s")
        time.sleep(0.05)  # another program's start has no event to wait for


def measure(program, count):
    print(f"{count} directories", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        url = f"http://127.0.0.1:{free_port()}"
        peers = f"http://127.0.0.1:{free_port()}"
        etcd = subprocess.Popen(["etcd", "--data-dir", folder, "--logger", "zap", "--log-level", "error", "--listen-client-urls", url,
                                 "--advertise-client-urls", url, "--listen-peer-urls", peers,
                                 "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"])
        try:
            wait_until_healthy(url)
            run = subprocess.run([program, url, str(etcd.pid), str(count)], stdout=subprocess.PIPE, text=True,
                                 check=True)
        finally:
            etcd.kill()
            etcd.wait()
    return json.loads(run.stdout)


def table(rows):
    sizes = [row["directories"] for row in rows]
    lines = ["| | " + " | ".join(f"{n:,}" for n in sizes) + f" | model | predicts for {sizes[-1]:,} | for 1,000 |",
             "| --- |" + " ---: |" * len(sizes) + " --- | ---: | ---: |"]
    for column, what, factor in COLUMNS:
        values = [row[column] * factor for row in rows]
        model, shape = fit(column, list(zip(sizes, values))[:-1])
        lines.append(f"| {what} | " + " | ".join(short(value) for value in values) +
                     f" | {shape} | {short(max(model(sizes[-1]), 0))} | {short(max(model(1000), 0))} |")
    return "\n".join(lines) + "\n"


def plot(rows, output):
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6))
    sizes = [row["directories"] for row in rows]
    for axis, name in zip(axes, ["start_cpu_s", "requests_per_s", "core"]):
        what, factor = next(one[1:] for one in COLUMNS if one[0] == name)
        values = [row[name] * factor for row in rows]
        model, _ = fit(name, list(zip(sizes, values))[:-1])
        line, = axis.plot(sizes, values, marker="o", markersize=4, linestyle="none")
        axis.plot(sizes, [max(model(n), 0) for n in sizes], color=line.get_color(), linewidth=1)
        axis.set_title(what, fontsize=10)
        axis.set_xlabel("directories")
        axis.set_ylim(bottom=0)
    figure.tight_layout()
    figure.savefig(output / "etcd.svg", metadata={"Date": None})
    text = (output / "etcd.svg").read_text()
    (output / "etcd.svg").write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")


HEAD = """# What directories cost an etcd
Made by `tools/script/scale.sh`; the raw figures are in [etcd.json](etcd.json). Each directory is a relay's: it
announces one record, keeps its lease of 15 s, and follows all others. All start within a second. The etcd is a real one, the
directories are in one other process on the same machine. The models are fitted on all sizes but the
largest, and predict that one: dots are measured, lines are the model. [What follows from it](../fleet.md#discovery-by-etcd).

![Processor time to start, requests and share of a core at rest, by the number of directories](etcd.svg)

"""


def main(words):
    if len(words) not in (2, 3) or words[2:] not in ([], ["--reuse"]):
        sys.exit(__doc__)
    output = Path(words[1])
    raw = output / "etcd.json"
    if len(words) == 3:
        rows = json.loads(raw.read_text())
    else:
        rows = [measure(words[0], count) for count in SIZES]
        output.mkdir(parents=True, exist_ok=True)
        raw.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    (output / "etcd.md").write_text(HEAD + table(rows))
    plot(rows, output)


if __name__ == "__main__":
    main(sys.argv[1:])
