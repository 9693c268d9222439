import time


def until(holds, what, seconds=10.0):
    """Waits until `holds()` is true, and returns what it gives."""
    limit = time.monotonic() + seconds
    while True:
        value = holds()
        if value:
            return value
        assert time.monotonic() < limit, f"within {seconds} s: {what}"
        time.sleep(0.05)
