"""Replies that handlers have returned, for which there is no room yet."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Deque, Dict, Tuple

_BYTES_MAX = 16 << 20  # of requests and replies of one node that asks, or of all clients
_COST = 512  # of each
_CLIENTS_TRIED = 16  # in one turn: they all have the id 0, and one of them may have room when another has none

# Sends a reply, or fails the request; False: there is no room.
Send = Callable[[Any, Any], bool]


class WaitingReplies:
    """They wait per node that asks, so that one that does not read costs the others nothing: each turn tries one reply
    to it. A node for which too much waits gets no more work done: see is_full."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._of: Dict[int, Deque[Tuple[Any, Any, int]]] = {}
        self._bytes: Dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def is_full(self, source: int) -> bool:
        """Whether that node has as many replies waiting as it may."""
        return self._bytes.get(source, 0) >= _BYTES_MAX

    def send(self, request: Any, value: Any) -> None:
        """Sends the reply, or keeps it."""
        source = request.source
        if (source != 0 and source in self._of) or not self._send(request, value):
            kept = value if isinstance(value, (bytes, str)) else bytes(memoryview(value))
            self._add(source, (request, kept, len(request.data) + len(kept) + _COST))

    def send_again(self) -> None:
        """Tries what waits."""
        for source in list(self._of):
            blocked = 0
            most = min(_CLIENTS_TRIED, len(self._of.get(source, ()))) if source == 0 else 1
            # What is tried is out of here meanwhile: a finalizer may poll, too.
            while blocked < most and (waiting := self._of.get(source)):
                one = waiting.popleft()
                self._bytes[source] -= one[2]
                if not waiting:
                    del self._of[source], self._bytes[source]
                if not self._send(one[0], one[1]):
                    blocked += 1
                    self._add(source, one, first=source != 0)

    def _add(self, source: int, one: Tuple[Any, Any, int], first: bool = False) -> None:
        waiting = self._of.setdefault(source, deque())
        waiting.appendleft(one) if first else waiting.append(one)
        self._bytes[source] = self._bytes.get(source, 0) + one[2]
