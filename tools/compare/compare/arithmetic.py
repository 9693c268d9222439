"""What is computed from the figures of runs. No input or output here."""

import math
import statistics

SLICE_S = 0.1
LOSSES = ("lost", "corrupt", "reordered")


def steady_rate(slices):
    """Per second: the median of the slices without the first and the last, which are not whole.

    A run too short to have any others is averaged over what it has."""
    if not slices:
        return 0.0
    inner = slices[1:-1] or slices
    return statistics.median(inner) / SLICE_S


def spread(values):
    """Median, lowest and highest of some runs; None of none."""
    values = [value for value in values if value is not None]
    if not values:
        return None
    return {
        "median": statistics.median(values),
        "low": min(values),
        "high": max(values),
        "runs": len(values),
    }


def per_million(seconds, messages):
    """CPU seconds per million messages; None without messages."""
    return seconds / messages * 1e6 if messages else None


def account(receive, sends):
    """Sums of what a run lost: the receiver's own count, or what it could not know of.

    A receiver learns from a sender's last message how many there were. If that is lost too, the
    senders' word counts: accepted and not arrived is lost."""
    accepted = sum(send["accepted"] for send in sends if send)
    whole = bool(sends) and all(sends)
    missing = accepted - receive["messages"] if whole else 0
    return {
        "lost": max(receive["lost"], missing, 0),
        "corrupt": receive["corrupt"],
        "reordered": receive["reordered"],
    }


def fit_cost(points):
    """Fits time per message = a + b * bytes to [(bytes, seconds per message)].

    Least squares of the relative error, or the largest messages would be all that counts. Returns
    a, b and the largest relative error; None with fewer than two sizes."""
    points = [(size, time) for size, time in points if time > 0 and math.isfinite(time)]
    if len({size for size, _ in points}) < 2:
        return None
    # Weighted normal equations with weights 1 / time^2.
    w = [1 / (time * time) for _, time in points]
    sw = sum(w)
    sx = sum(wi * x for wi, (x, _) in zip(w, points))
    sy = sum(wi * y for wi, (_, y) in zip(w, points))
    sxx = sum(wi * x * x for wi, (x, _) in zip(w, points))
    sxy = sum(wi * x * y for wi, (x, y) in zip(w, points))
    b = (sw * sxy - sx * sy) / (sw * sxx - sx * sx)
    a = (sy - b * sx) / sw
    if a < 0:  # no message costs less than nothing: through the origin
        a, b = 0.0, sxy / sxx
    worst = max(abs(a + b * x - y) / y for x, y in points)
    return {"a": a, "b": b, "worst": worst}


def rate_of(fit, size):
    """Messages per second that a fitted model predicts for one pair of cores."""
    return 1 / (fit["a"] + fit["b"] * size)


def shortfall(ours, wanted):
    """By how much of what was wanted `ours` misses it; 0 if it does not. More is better."""
    return max(0.0, 1 - ours / wanted) if wanted > 0 else 0.0
