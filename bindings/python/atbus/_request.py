"""Requests of other nodes, and how they are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Union

from . import _bus
from ._errors import Closed, Code, Error, WouldBlock

if TYPE_CHECKING:
    from ._node import Node

# Why a request that was not answered before can't be answered any more: its deadline has passed, it was cancelled, or
# the process that has asked is gone.
_UNWANTED = (Code.timed_out, Code.cancelled, Code.peer_closed)
# Why it can't get this reply. What another node is, such as how long a message it takes, is no error of this one's program.
_REFUSED = (Code.message_too_large, Code.no_route, Code.not_connected, Code.denied)

# Anything with a buffer (bytes, bytearray, memoryview, numpy arrays), or a str, which is sent as UTF-8.
Data = Union[bytes, bytearray, memoryview, str, Any]


class Request:
    """A request of another node, which has to be answered."""

    __slots__ = ("_bus", "_node", "_answered")

    def __init__(self, of: _bus.Request, node: Node) -> None:
        self._bus = of
        self._node = node
        self._answered = False

    @property
    def source(self) -> int:
        """The node that asks; 0 for a client."""
        return self._bus.source

    @property
    def type(self) -> int:
        """The number that was passed to request."""
        return self._bus.type

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._bus.data

    @property
    def redelivered(self) -> bool:
        """True: an earlier incarnation of this node may have handled it."""
        return self._bus.redelivered

    @property
    def is_wanted(self) -> bool:
        """Whether the other node still waits for the answer."""
        return not self._answered and self._bus.is_wanted

    def reply(self, data: Data = b"") -> bool:
        """Sends the reply. False: nobody waits for it any more. After an error, such as WouldBlock, it still has to be
        answered."""
        return self._answer(lambda: self._bus.reply(data))

    def fail(self, why: str = "") -> bool:
        """Answers that it has failed, and why. False, and errors: as reply."""
        return self._answer(lambda: self._bus.fail(why))

    def _answer(self, send: Callable[[], None]) -> bool:
        try:
            send()
        except Error as error:
            if error.code not in _UNWANTED:
                raise
            self._answered = True
            return False
        self._answered = True
        self._node._wake()
        return True


# False: there is no room.
def try_to_reply(request: Request, value: Data) -> bool:
    try:
        request.reply(value)
    except WouldBlock:
        return False
    except Closed:
        pass  # the handler has closed the node
    except Error as error:
        if error.code not in _REFUSED:
            raise
        fail(request, str(error))
    return True


def fail(request: Request, why: str) -> None:
    if not request._answered:
        try:
            request.fail(why)
        except Error:
            pass  # there is no room, or the node has ended


def text_of(raised: BaseException) -> str:
    return f"{type(raised).__name__}: {raised}"
