"""What requests and commands come to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Callable, Generator, List, NamedTuple, Optional, Tuple

from . import _bus
from ._errors import Code, make_error

if TYPE_CHECKING:
    from ._node import Node


class Response(NamedTuple):
    """The outcome of a request. With Code.ok, `data` is the reply; with request_failed, the reason."""

    code: Code
    source: int
    data: bytes


class Pending:
    """The outcome of a request or command that is not there yet.

    `await pending` gives the reply (of a command: its values), or raises an Error. `pending.result()` does the same
    without asyncio: it polls the node until the outcome is there.
    """

    def __init__(self, node: Node, take: Callable[[Any], Any]) -> None:
        self._node = node
        self._take = take
        self._outcome: Any = None
        self._handle: Optional[_bus.RequestHandle] = None
        self._calls: List[Callable[[Pending], Any]] = []

    def done(self) -> bool:
        """Whether the outcome is there."""
        return self._outcome is not None

    def outcome(self) -> Any:
        """The Response, or the (code, values) of a command; None while it is not there."""
        return self._outcome

    def add_done_callback(self, call: Callable[[Pending], Any]) -> None:
        """Calls call(self) when the outcome is there."""
        if self.done():
            call(self)
        else:
            self._calls.append(call)

    def cancel(self) -> bool:
        """Ends the wait for a request: its outcome is Code.cancelled. False: it has another one, or is a command."""
        cancelled = self._handle is not None and self._node._bus.cancel(self._handle)
        self._node._wake()
        return cancelled

    def result(self) -> Any:
        """Polls the node until the outcome is there; returns the reply, or raises an Error."""
        self._node._turn_until(self.done)
        return self._take(self._outcome)

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.done():
            self._node._check_loop()
            waiting = asyncio.get_running_loop().create_future()
            self.add_done_callback(lambda _: None if waiting.done() else waiting.set_result(None))
            try:
                yield from waiting
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self._take(self._outcome)

    def _set(self, outcome: Any) -> None:
        self._outcome = outcome
        calls, self._calls = self._calls, []
        for call in calls:
            call(self)


def reply_of(response: Response) -> bytes:
    if response.code != Code.ok:
        text = response.data.decode(errors="backslashreplace")
        raise make_error(response.code, text)
    return response.data


def values_of(outcome: Tuple[Code, List[str]]) -> List[str]:
    code, values = outcome
    if code != Code.ok:
        raise make_error(code, " ".join(values))
    return values
