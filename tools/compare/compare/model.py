"""Cost per message and per byte, fitted to the fixed sizes, and what follows from it."""

from compare.arithmetic import fit_cost, rate_of
from compare.rows import SIZES

LINE_BYTES = 12.5e9  # 100 Gbit/s
TCP_IP_SHARE = 0.95  # what headers of 1500-byte packets leave
CORES = 64
NODES = 10_000

ASSUMPTIONS = (
    "Time per message = a + b x bytes, for one sender and one receiver with a core each, fitted by "
    "least squares of the relative error to the fixed sizes of this page.",
    f"{CORES} cores: half of them send to the other half, pair by pair; no pair slows another. It is "
    "an upper bound: caches and memory are shared, and b grows when their bandwidth is used up.",
    "100 Gbit/s: the slower of the line, of which headers leave 95 %, and of one pair, or of as many "
    "pairs as the line needs. Loopback stands for the network card; interrupts of a real one cost more.",
    f"{NODES} nodes: one idle connection to each, by the memory per connection measured here.",
)


def fixed_sizes():
    return [(label, low) for label, low, high in SIZES if low == high]


def fits(summary):
    """By system, where at least three sizes were measured."""
    found = {}
    for name in summary.names(limits=True):
        points = []
        for label, size in fixed_sizes():
            rate = summary.cell("throughput", name, size=label).median("rate")
            if rate:
                points.append((size, 1 / rate))
        fit = fit_cost(points) if len(points) >= 3 else None
        if fit:
            found[name] = fit
    return found


def many_cores(fit, size):
    """Messages per second of CORES / 2 pairs."""
    return CORES / 2 * rate_of(fit, size)


def on_the_line(fit, size):
    """(messages per second of one pair, pairs that fill the line)"""
    line = LINE_BYTES * TCP_IP_SHARE / size
    return min(line, rate_of(fit, size)), line / rate_of(fit, size)


def kib_per_connection(summary, name):
    """Both sides together: the slope between the fewest and the most connections."""
    counts = summary.values("connections", "count")
    sums = {}
    for count in counts:
        cell = summary.cell("connections", name, count=count)
        parts = [cell.median("receiver_kib"), cell.median("holder_kib")]
        if None not in parts:
            sums[count] = sum(parts)
    if len(sums) < 2:
        return None
    few, many = min(sums), max(sums)
    return max(0.0, (sums[many] - sums[few]) / (many - few))
