"""Why something failed, as exceptions."""

import enum

from . import _bus

_CODES = 39

Code = enum.IntEnum("Code", {_bus.code_name(code): code for code in range(_CODES)}, module=__name__)
Code.__doc__ = "Why something failed: Code.would_block. The numbers stay the same."


class Error(Exception):
    """Something failed. `code` says what, the text what is at fault and what to do."""

    def __init__(self, code, text=""):
        self.code = Code(code)
        super().__init__(text or _bus.code_text(code))


class WouldBlock(Error):
    """The queue is full; on_writable tells when there is room."""


class TimedOut(Error):
    """The time allowed is over."""


class Closed(Error):
    """The node was closed."""


_CLASSES = {Code.would_block: WouldBlock, Code.timed_out: TimedOut, Code.closed: Closed}


def make_error(code, text=""):
    """The exception of a code."""
    return _CLASSES.get(code, Error)(code, text)


_bus.set_error_class(make_error)
