import time


def until(holds, what, seconds=10.0):
    """Waits until `holds()` is true, and returns what it gives. `what` is a text, or a function that gives one."""
    limit = time.monotonic() + seconds
    while True:
        value = holds()
        if value:
            return value
        assert time.monotonic() < limit, f"within {seconds} s: {what() if callable(what) else what}"
        time.sleep(0.05)
