"""The plots of the report, as SVG text. Each has a name, under which a file of it is written."""

import io

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: E402

from compare import model  # noqa: E402

plt.rcParams.update({
    "svg.fonttype": "none",
    "svg.hashsalt": "atbus",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
    "legend.frameon": False,
})

OURS = ["#c1121f", "#ff7b00", "#7f0010", "#ffb000", "#d00070", "#e85d04", "#f77fad", "#9a031e",
        "#a4508b"]
THEIRS = ["#1d4e89", "#2a9d8f", "#7b2cbf", "#577590", "#43aa8b", "#8d6a9f", "#264653", "#3a86ff",
          "#6a994e", "#5e548e", "#118ab2", "#073b4c"]
MARKERS = "os^Dv<>Pp*Xh"
KINDS = (("On one host: shared memory, Unix sockets", ("shm", "unix")), ("TCP, UDP, loopback", ("tcp",)))


class Styles:
    """One colour and mark for each system, on all plots. Limits are grey and dashed."""

    def __init__(self, summary):
        ours, theirs = iter(OURS * 3), iter(THEIRS * 3)
        self._styles = {}
        for i, system in enumerate(summary.systems):
            style = {"marker": MARKERS[i % len(MARKERS)], "markersize": 5, "linewidth": 1.6}
            if system["limit"]:
                style.update(color="#999999", linestyle="--", linewidth=1.2)
            elif system["family"] == "atbus":
                style.update(color=next(ours), linewidth=2.6)
            else:
                style.update(color=next(theirs))
            self._styles[system["name"]] = style

    def of(self, name):
        return dict(self._styles[name])

    def colour(self, name):
        return self._styles[name]["color"]


def _svg(figure):
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    return text.getvalue()


def _bytes_label(value, _=None):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g} B"


def _plain(value, _=None):
    return f"{value:g}" if value < 1e4 else f"{value:,.0f}"


def _figures(value):
    """Three figures, without powers of ten."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def throughput(summary, styles):
    figure, panels = plt.subplots(1, 2, figsize=(12, 5.2), sharey=True)
    drawn = False
    for panel, (title, kinds) in zip(panels, KINDS):
        for name in summary.names(kinds, limits=True):
            points = [(size, summary.cell("throughput", name, size=label).median("rate"))
                      for label, size in model.fixed_sizes()]
            points = [(size, rate * size / 1e9) for size, rate in points if rate]
            if points:
                panel.plot(*zip(*points), label=name, **styles.of(name))
                drawn = True
        panel.set(xscale="log", yscale="log", title=title, xlabel="size of a message")
        panel.set_xticks([size for _, size in model.fixed_sizes()])
        panel.xaxis.set_major_formatter(FuncFormatter(_bytes_label))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.yaxis.set_major_formatter(FuncFormatter(_plain))
        panel.legend(fontsize=8, loc="lower right")
    panels[0].set_ylabel("gigabytes of payload per second")
    figure.suptitle("Throughput by size, every byte written and compared (higher is better)")
    figure.tight_layout()
    return _svg(figure) if drawn else None


def _distributions(panel, rows, styles):
    """rows: [(name, {p50, p99, p999, max})], best on top."""
    rows = sorted(rows, key=lambda row: row[1]["p50"], reverse=True)
    for y, (name, ns) in enumerate(rows):
        colour = styles.colour(name)
        values = [ns[p] / 1000 for p in ("p50", "p99", "p999")]
        panel.plot([values[0], values[-1]], [y, y], color=colour, linewidth=2, alpha=0.5)
        for value, marker, size in zip(values, "o|D", (8, 12, 6)):
            panel.plot(value, y, marker=marker, markersize=size, color=colour, markeredgewidth=2)
        panel.annotate(_figures(values[0]), (values[0], y), textcoords="offset points",
                       xytext=(0, 7), ha="center", fontsize=7)
    panel.set_yticks(range(len(rows)), [name for name, _ in rows])
    panel.set(xscale="log", xlabel="microseconds (o p50, | p99, diamond p99.9)")
    panel.xaxis.set_major_formatter(FuncFormatter(_plain))


def _latency_rows(summary, row, path, **facts):
    found = []
    for name in summary.names(limits=row == "round trip"):
        cell = summary.cell(row, name, **facts)
        ns = {p: cell.median(f"{path}.{p}") for p in ("p50", "p99", "p999")}
        if all(ns.values()):
            found.append((name, ns))
    return found


def latency(summary, styles):
    wanted = [
        ("Round trip of 64 B, polling", _latency_rows(summary, "round trip", "rtt_ns",
                                                      waiting="polling")),
        ("Round trip of 64 B, blocking", _latency_rows(summary, "round trip", "rtt_ns",
                                                       waiting="blocking")),
    ] + [
        (f"One way under {load} % of the system's own maximum",
         _latency_rows(summary, "paced", "receive.latency_ns", load=load))
        for load in summary.values("paced", "load") if load >= 50
    ]
    wanted = [pair for pair in wanted if pair[1]]
    if not wanted:
        return None
    lines = (len(wanted) + 1) // 2
    most = max(len(rows) for _, rows in wanted)
    figure, panels = plt.subplots(lines, 2, figsize=(13, lines * (1 + 0.3 * most)), squeeze=False)
    for panel, (title, rows) in zip(panels.flat, wanted):
        _distributions(panel, rows, styles)
        panel.set_title(title)
    for panel in list(panels.flat)[len(wanted):]:
        panel.set_visible(False)
    figure.suptitle("Latency (left is better)")
    figure.tight_layout()
    return _svg(figure)


def fan_in(summary, styles):
    wanted = summary.values("fan-in", "size")
    if not wanted:
        return None
    counts = summary.values("fan-in", "senders")
    figure, panels = plt.subplots(1, len(wanted), figsize=(7.5 * len(wanted), 5), squeeze=False)
    for panel, size in zip(panels.flat, wanted):
        for name in summary.names():
            points = [(n, summary.cell("fan-in", name, size=size, senders=n).median("rate"))
                      for n in counts]
            points = [(n, rate / 1e6) for n, rate in points if rate]
            if points:
                panel.plot(*zip(*points), label=name, **styles.of(name))
        panel.set(xscale="log", yscale="log", title=f"{size} messages", xlabel="senders",
                  ylabel="million messages per second")
        panel.set_xticks(counts, [str(n) for n in counts])
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.yaxis.set_major_formatter(FuncFormatter(_plain))
        panel.legend(fontsize=8, bbox_to_anchor=(1.01, 1), loc="upper left")
    figure.suptitle("Fan-in: many senders, one receiver (higher is better)")
    figure.tight_layout()
    return _svg(figure)


def _bars(panel, rows, styles, title, unit):
    rows = sorted(rows, key=lambda row: row[1], reverse=True)
    names = [name for name, _ in rows]
    values = [value for _, value in rows]
    panel.barh(names, values, color=[styles.colour(name) for name in names], height=0.65)
    panel.set(title=title, xlabel=unit, xscale="log")
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.xaxis.set_major_formatter(FuncFormatter(_plain))
    panel.grid(axis="y", visible=False)
    for y, value in enumerate(values):
        panel.annotate(_figures(value), (value, y), textcoords="offset points", xytext=(3, 0),
                       va="center", fontsize=8)
    panel.margins(x=0.15)


def costs(summary, styles):
    names = summary.names(limits=True)
    fast = {name: summary.cell("throughput", name, size="8-128 B") for name in names}
    wanted = [
        ("CPU at full speed, 8-128 B", "CPU seconds per million messages, all processes",
         [(n, c.median("cpu_s_per_million")) for n, c in fast.items()]),
        ("CPU at 20,000 messages per second", "CPU seconds per million messages, all processes",
         [(n, summary.cell("same rate", n).median("cpu_s_per_million")) for n in names]),
        ("Memory", "peak resident MB, all processes",
         [(n, sum((c.median(f"peak_{side}_kib") or 0) for side in ("receive", "send", "server"))
           / 1024) for n, c in fast.items()]),
    ]
    wanted = [(title, unit, [(n, v) for n, v in rows if v]) for title, unit, rows in wanted]
    wanted = [row for row in wanted if row[2]]
    if not wanted:
        return None
    return _bar_panels(wanted, styles, "What it costs (shorter is better)")


def _bar_panels(wanted, styles, title):
    most = max(len(rows) for _, _, rows in wanted)
    figure, panels = plt.subplots(1, len(wanted), figsize=(6 * len(wanted), 1 + 0.27 * most),
                                  squeeze=False)
    for panel, (what, unit, rows) in zip(panels.flat, wanted):
        _bars(panel, rows, styles, what, unit)
    figure.suptitle(title)
    figure.tight_layout()
    return _svg(figure)


def _of_row(summary, styles, row, figures, title):
    """A panel for each (what was done, figure, unit)."""
    wanted = []
    for what, path, unit in figures:
        found = [(name, summary.cell(row, name, what=what).median(path))
                 for name in summary.names()]
        found = [(name, value) for name, value in found if value]
        if found:
            wanted.append((what, unit, found))
    return _bar_panels(wanted, styles, title) if wanted else None


def requests(summary, styles):
    asked = summary.values("request", "what")
    if not asked:
        return None
    plain = [(what, "per_second", "requests per second") for what in asked[:2]]
    tasks = [(asked[-1], "per_cpu_second", "requests per second of CPU of the service"),
             (asked[-1], "per_mib", "requests per second and MiB of the service")]
    return _of_row(summary, styles, "request", plain + tasks,
                   "Requests and replies (longer is better)")


def caches(summary, styles):
    stored = summary.values("cache", "what")
    figures = [(what, path, unit) for what in stored[:2]
               for path, unit in (("operations_per_second", "operations per second"),
                                  ("hits_per_gib", "hits in % per GiB of the server's peak"))]
    return _of_row(summary, styles, "cache", figures, "Caches (longer is better)")


def connections(summary, styles):
    counts = summary.values("connections", "count")
    if len(counts) < 2:
        return None
    figure, panel = plt.subplots(figsize=(8, 4.5))
    for name in summary.names():
        points = []
        for count in counts:
            cell = summary.cell("connections", name, count=count)
            parts = [cell.median("receiver_kib"), cell.median("holder_kib")]
            if None not in parts:
                points.append((count, sum(parts) / 1024))
        if points:
            panel.plot(*zip(*points), label=name, **styles.of(name))
    panel.set(xscale="log", yscale="log", xlabel="idle connections", ylabel="MB, both sides",
              title="Memory against connections (lower is better)")
    panel.xaxis.set_major_formatter(FuncFormatter(_plain))
    panel.yaxis.set_major_formatter(FuncFormatter(_plain))
    panel.yaxis.set_minor_formatter(FuncFormatter(_plain))
    panel.legend(fontsize=8, bbox_to_anchor=(1.01, 1), loc="upper left")
    return _svg(figure)


def all_plots(summary):
    """{name: (what it shows, SVG)}"""
    styles = Styles(summary)
    found = {
        "throughput": ("Throughput by size", throughput(summary, styles)),
        "latency": ("Latency distributions", latency(summary, styles)),
        "fan_in": ("Fan-in", fan_in(summary, styles)),
        "costs": ("CPU and memory", costs(summary, styles)),
        "connections": ("Memory against connections", connections(summary, styles)),
        "requests": ("Requests and replies", requests(summary, styles)),
        "caches": ("Caches", caches(summary, styles)),
    }
    return {name: pair for name, pair in found.items() if pair[1]}
