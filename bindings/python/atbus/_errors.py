"""Why something failed, as exceptions."""

import enum
from typing import Dict, Type

from . import _bus


class Code(enum.IntEnum):
    """Why something failed: atbus_code in atbus/atbus.h says what each one means. The numbers stay the same."""

    ok = 0
    would_block = 1
    message_too_large = 2
    closed = 3
    used_after_fork = 4
    timed_out = 5
    invalid_argument = 6
    invalid_address = 7
    invalid_name = 8
    not_supported = 9
    not_found = 10
    receiver_exists = 11
    no_free_lane = 12
    no_space = 13
    not_a_segment = 14
    version_mismatch = 15
    geometry_mismatch = 16
    wrong_owner = 17
    wrong_mode = 18
    retired = 19
    quarantined = 20
    receiver_alive = 21
    peer_closed = 22
    outcome_unknown = 23
    not_delivered = 24
    no_route = 25
    not_connected = 26
    hop_limit = 27
    denied = 28
    superseded = 29
    out_of_memory = 30
    system_error = 31
    protocol_error = 32
    unknown_command = 33
    command_failed = 34
    unknown_request = 35
    request_failed = 36
    cancelled = 37
    malformed = 38


class Error(Exception):
    """Something failed. `code` says what, the text what is at fault and what to do."""

    def __init__(self, code: int, text: str = "") -> None:
        self.code = Code(code)
        super().__init__(text or _bus.code_text(code))


class WouldBlock(Error):
    """The queue is full; on_writable tells when there is room."""


class TimedOut(Error):
    """The time allowed is over."""


class Closed(Error):
    """The node was closed."""


_CLASSES: Dict[int, Type[Error]] = {Code.would_block: WouldBlock, Code.timed_out: TimedOut, Code.closed: Closed}


def make_error(code: int, text: str = "") -> Error:
    """The exception of a code."""
    return _CLASSES.get(code, Error)(code, text)


_bus.set_error_class(make_error)
