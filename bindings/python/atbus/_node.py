"""Nodes."""

from __future__ import annotations

import asyncio
import enum
import inspect
import math
import time
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Coroutine,
    Dict,
    Iterable,
    List,
    NamedTuple,
    Optional,
    TypeVar,
    overload,
)

from . import _bus
from ._errors import Code, make_error
from ._pending import Pending, Response, reply_of, values_of
from ._replies import WaitingReplies
from ._request import Data, Request, fail, text_of, try_to_reply

if TYPE_CHECKING:
    from ._simulation import Simulation

Message = _bus.Message
Command = _bus.Command
version = _bus.version

_SLEEP_S = 0.1  # so that signals are seen
_DRAIN_STEP_S = 0.001  # outcomes don't always wake who sleeps
_DRAIN_S = 5.0  # unless the option says otherwise
_FULL_POLL = 2048  # messages, or fewer: it has read all that was there
_LAST_POLLS = 64  # others may send without end
_NONE_S = 1e-9  # or less: of a simulated clock that may be nothing
_DECORATE: Any = object()  # no handler was given, not even None

_T = TypeVar("_T")

# Handlers; None removes one. What sets them returns them, as decorators do.
OnMessage = TypeVar("OnMessage", bound=Optional[Callable[[Message], Any]])
OnRequest = TypeVar("OnRequest", bound=Optional[Callable[["Request"], Any]])
OnCommand = TypeVar("OnCommand", bound=Optional[Callable[[Command], Any]])
OnUndelivered = TypeVar("OnUndelivered", bound=Optional[Callable[["Undelivered"], Any]])
OnEndpoint = TypeVar("OnEndpoint", bound=Optional[Callable[[int, "Endpoint"], Any]])
OnWritable = TypeVar("OnWritable", bound=Optional[Callable[[int], Any]])
OnLog = TypeVar("OnLog", bound=Optional[Callable[[str], Any]])


class Overflow(enum.IntEnum):
    """What to do with a message for which there is no room."""

    WOULD_BLOCK = 0
    DROP_NEWEST = 1
    DROP_OLDEST = 2
    DISCONNECT = 3


class Restart(enum.IntEnum):
    """What to do with messages that an earlier incarnation of the receiver may have handled."""

    REDELIVER = 0
    REPORT = 1


class Endpoint(enum.IntEnum):
    """What has happened to another node."""

    CONNECTED = 0
    MOVED = 1
    AWAY = 2
    DISCONNECTED = 3
    REFUSED = 4
    SUPERSEDED = 5


class Undelivered(NamedTuple):
    """Messages that were accepted and not delivered."""

    destination: int
    type: int
    data: bytes
    outcome: Code
    reason: Code
    count: int  # type: ignore[assignment]  # of messages that this covers; tuple has a method of this name


class ThreadSender:
    """Sends through a node from another thread: the first thread that uses it owns it."""

    def __init__(self, node: Node) -> None:
        self._bus = _bus.ThreadSender(node._bus)

    def send(self, to: int, type: int, data: Data) -> None:
        """Accepts a copy of the data; waits for room."""
        self._bus.send(to, type, data)


class Node:
    """A node: one participant of the bus. `id` 0 makes a client.

    Options have the names of atbus::node_options; times are in seconds: Node(7, token=secret, ping_interval=4).
    One thread uses a node: the one that made it. Handlers run from poll, receive, run, shutdown and the asyncio loop;
    what they raise is raised there.

    `with Node(1) as node` closes it at the end; `async with Node(1) as node` also runs it on the asyncio loop.
    """

    def __init__(self, id: int, **options: Any) -> None:
        self._begin(_bus.Node(id, options), None, options)

    @classmethod
    def _of(cls, bus: _bus.Node, simulation: Simulation, options: Dict[str, Any]) -> Node:
        node = cls.__new__(cls)
        node._begin(bus, simulation, options)
        return node

    def _begin(self, bus: _bus.Node, simulation: Optional[Simulation], options: Dict[str, Any]) -> None:
        self._bus = bus
        self._simulation = simulation
        drain = options.get("drain")  # None: as if it were not given, as of all options
        self._drain = _DRAIN_S if drain is None else float(drain)
        self._stopped = False
        self._runs = False
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._descriptor = -1  # that the loop watches
        self._timer: Optional[asyncio.TimerHandle] = None
        self._due = False
        self._tasks: Dict[asyncio.Task[None], None] = {}  # in their order
        self._replies = WaitingReplies(try_to_reply)

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    async def __aenter__(self) -> Node:
        self.attach()
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()

    # What it is.

    @property
    def id(self) -> int:
        """Its bus id."""
        return self._bus.id()

    @property
    def incarnation(self) -> int:
        """A random number of this incarnation."""
        return self._bus.incarnation()

    @property
    def parent(self) -> int:
        """The id of the connected parent; 0 without one."""
        return self._bus.parent()

    @property
    def is_open(self) -> bool:
        """False once it is closed."""
        return self._bus.is_open()

    @property
    def addresses(self) -> List[str]:
        """Where it listens."""
        return self._bus.addresses()

    @property
    def stats(self) -> Dict[str, int]:
        """Its counters."""
        return self._bus.stats()

    # Who it talks to.

    def listen(self, address: str) -> None:
        """Listens at this address; any number of times."""
        self._bus.listen(address)

    def connect(self, id: int, address: str) -> None:
        """Expects node `id` at this address, and dials it."""
        self._bus.connect(id, address)
        self._wake()

    def disconnect(self, id: int) -> None:
        """Ends the links to that node."""
        self._bus.disconnect(id)
        self._wake()

    def set_policy(self, id: int, overflow: Overflow = Overflow.WOULD_BLOCK, deadline: float = 0.0) -> None:
        """Sets the policy for messages to that node; `deadline` in seconds, 0: none."""
        self._bus.set_policy(id, overflow, deadline)

    def set_tokens(self, tokens: Iterable[str]) -> None:
        """Replaces the tokens: the first is proven, all are accepted."""
        self._bus.set_tokens(list(tokens))
        self._wake()

    def adopt(self) -> None:
        """The calling thread owns the node from now on."""
        self._bus.adopt()

    # What it sends.

    def send(self, to: int, type: int, data: Data) -> None:
        """Accepts a copy of `data`: bytes, any buffer, or a str. Raises WouldBlock if there is no room."""
        self._bus.send(to, type, data)
        if self._loop is not None:
            self._wake()

    def try_send(self, to: int, type: int, data: Data) -> bool:
        """As send; False if there is no room."""
        taken = self._bus.try_send(to, type, data)
        if self._loop is not None:
            self._wake()
        return taken

    def send_required(self, to: int, type: int, data: Data) -> None:
        """As send; the message waits until it is delivered, also while no route is known."""
        self._bus.send_required(to, type, data)
        self._wake()

    def broadcast(self, type: int, data: Data, prefix: int = 0, length: int = 0) -> None:
        """Sends to all nodes whose ids begin with the first `length` bits of `prefix`."""
        self._bus.broadcast(prefix, length, type, data)
        self._wake()

    def request(self, to: int, type: int, data: Data = b"", timeout: float = 5.0) -> Pending:
        """Asks that node something; a Pending with the reply."""
        pending = Pending(self, reply_of)
        pending._handle = self._bus.request(
            to, type, data, timeout, lambda code, source, reply: pending._set(Response(Code(code), source, reply))
        )
        self._wake()
        return pending

    def command(self, to: int, *words: str, timeout: float = 5.0) -> Pending:
        """Sends that node a command: a name and arguments; a Pending with the values of the reply."""
        pending = Pending(self, values_of)
        self._bus.command(to, list(words), timeout, lambda code, values: pending._set((Code(code), values)))
        self._wake()
        return pending

    def thread_sender(self) -> ThreadSender:
        """A ThreadSender, for one other thread."""
        return ThreadSender(self)

    # What it is told. Each sets a handler, None removes it, and each is a decorator too.

    def on_message(self, handler: OnMessage) -> OnMessage:
        """handler(message): each message; see Message."""
        self._bus.on_message(handler)
        return handler

    @overload
    def on_request(self, handler: OnRequest, *, type: Optional[int] = None) -> OnRequest: ...

    @overload
    def on_request(self, *, type: Optional[int] = None) -> Callable[[OnRequest], OnRequest]: ...

    def on_request(self, handler: Any = _DECORATE, *, type: Optional[int] = None) -> Any:
        """handler(request): requests of this type, or all others. What it returns is the reply, unless it is None:
        then it has replied, or will. It may be a coroutine function on an asyncio loop. A reply that is returned waits
        for room, and one that nobody waits for any more is dropped."""
        if handler is _DECORATE:
            return lambda real: self.on_request(real, type=type)
        answer = None if handler is None else self._answering(handler)
        if type is None:
            self._bus.on_any_request(answer)
        else:
            self._bus.on_request(type, answer)
        return handler

    def on_command(self, handler: OnCommand) -> OnCommand:
        """handler(command): command.words, command.reply(values), command.fail(why)."""
        self._bus.on_command(handler)
        return handler

    def on_undelivered(self, handler: OnUndelivered) -> OnUndelivered:
        """handler(undelivered): messages that were accepted and not delivered."""
        call: Optional[Callable[[Undelivered], Any]] = handler
        self._bus.on_undelivered(
            None
            if call is None
            else lambda to, type, data, outcome, reason, count: call(
                Undelivered(to, type, data, Code(outcome), Code(reason), count)
            )
        )
        return handler

    def on_endpoint(self, handler: OnEndpoint) -> OnEndpoint:
        """handler(id, event): the state of another node changes; see Endpoint."""
        call: Optional[Callable[[int, Endpoint], Any]] = handler
        self._bus.on_endpoint(None if call is None else lambda id, event: call(id, Endpoint(event)))
        return handler

    def on_writable(self, handler: OnWritable) -> OnWritable:
        """handler(id): there is room for that node again after a WouldBlock."""
        self._bus.on_writable(handler)
        return handler

    def on_log(self, handler: OnLog) -> OnLog:
        """handler(line): lines for operators."""
        self._bus.on_log(handler)
        return handler

    # How it runs.

    def poll(self, messages: int = 0) -> int:
        """Sends, receives and calls handlers; never blocks. Returns how many messages were delivered."""
        try:
            delivered = self._bus.poll(messages)
            self._reply_again()
        finally:
            self._sleep_anew()
        return delivered

    def receive(self, messages: int = 0, timeout: Optional[float] = 0.0) -> List[Message]:
        """Polls, and returns a list of messages in place of calling on_message. Their data are memoryviews of one
        bytes object. Waits for the first one for at most `timeout` seconds (None: no limit)."""
        try:
            return self._receive(messages, timeout)
        finally:
            self._sleep_anew()

    def _receive(self, messages: int, timeout: Optional[float]) -> List[Message]:
        got = self._bus.receive(messages)
        self._reply_again()
        if got or timeout == 0:
            return got
        end = None if timeout is None else self._now() + timeout
        while not got:
            left = _SLEEP_S if end is None else min(end - self._now(), _SLEEP_S)
            if left <= _NONE_S:
                break
            self._bus.wait(left)
            got = self._bus.receive(messages)
            self._reply_again()
        return got

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Sleeps until poll has something to do (True) or `timeout` seconds are over (False; None: no limit)."""
        try:
            if timeout is not None:
                return self._bus.wait(timeout)
            while not self._bus.wait(_SLEEP_S):
                pass
            return True
        finally:
            self._sleep_anew()

    def flush(self) -> None:
        """Sends what is queued now, instead of at the next poll."""
        self._bus.flush()

    def run(self) -> bool:
        """Polls and waits until stop() is called, then until all messages have an outcome, but not longer than the
        option `drain`: 5 seconds. False: some have none. Raises Closed if the node is closed already."""
        self._runs = True
        try:
            self.poll()  # raises on another thread, where it seems to be closed
            self._turn_until(lambda: self._stopped or not self.is_open)
            settled = self._settle()
        finally:
            self._runs = False
        self._stopped = False
        return settled

    def stop(self) -> None:
        """Makes run() return, also one that has not begun. Of a simulated node that does not run by itself: its process
        ends."""
        self._stopped = True
        if self._simulation is not None and not self._runs:
            self._bus.stop()

    def shutdown(self, deadline: float = 5.0) -> bool:
        """Waits for the outcome of all messages for at most `deadline` seconds (negative: no limit), says goodbye, and
        ends the node. False: some have no outcome."""
        left = self._send_replies(deadline) if self._replies else deadline
        return self._end(lambda: self._bus.shutdown(left)) and not self._replies

    def close(self) -> None:
        """Ends the node at once."""
        self._end(self._bus.close)

    def attach(self) -> None:
        """Runs the node on the running asyncio loop, until it is closed."""
        if self._simulation is not None:
            return self._check_loop()
        self._loop = asyncio.get_running_loop()
        self._due = False  # the loop before may have ended first
        self._descriptor = self._bus.descriptor()
        self._loop.add_reader(self._descriptor, self._on_loop)
        self._wake()

    def _turn_until(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            self.poll()
            if not is_over():  # a handler may have brought it about
                self._bus.wait(_SLEEP_S)

    # As run() of C does after a stop; but that sees no signals. What other nodes have handled they may have refused before:
    # the last poll tells of nothing more.
    def _settle(self) -> bool:
        end = self._now() + self._drain
        last_polls = 0
        while self.is_open:
            was_settled = self._is_settled()
            words = self._words()
            told = self.poll()
            if not self.is_open:
                break
            if was_settled and self._is_settled():
                last_polls += 1
                is_last = told < _FULL_POLL and self._words() == words
                if is_last or last_polls == _LAST_POLLS:
                    break
            if self._now() >= end and not self._is_settled():
                break
            if not was_settled:
                self._bus.wait(_DRAIN_STEP_S)
        if self.is_open:
            self._bus.flush()
        return self._is_settled()

    # That messages were refused, or may have been.
    def _words(self) -> int:
        stats = self._bus.stats()
        return stats["not_delivered"] + stats["outcome_unknown"]

    def _is_settled(self) -> bool:
        return self._bus.is_settled() and not self._replies

    # A simulated node runs with its simulation, which has a loop of its own.
    def _check_loop(self) -> None:
        loop = self._loop if self._simulation is None else self._simulation._loop
        if asyncio.get_running_loop() is loop:
            return
        if self._simulation is not None:
            why = "a simulated node can be awaited only by what Simulation.run() runs"
        else:
            why = "a node can be awaited only on the asyncio loop that it runs on: `async with Node(...)`"
        raise make_error(Code.invalid_argument, why)

    def _now(self) -> float:
        return time.monotonic() if self._simulation is None else self._simulation.now

    def _wake(self) -> None:
        if self._loop is None or self._due:
            return
        if self._loop.is_closed():  # and with it what it watched
            self._loop = self._timer = None
            return
        self._due = True
        self._loop.call_soon(self._on_loop)

    # A call on the loop has woken it. On another thread, where that is refused, it seems to be closed.
    def _sleep_anew(self) -> None:
        if self._loop is not None and self._bus.is_open():
            self._wake()

    def _on_loop(self) -> None:
        self._due = False
        if self._loop is None:
            return
        try:
            self._bus.finish_sleep()
            self._bus.poll(256)
            self._reply_again()
        finally:
            self._sleep_on_loop()

    def _sleep_on_loop(self) -> None:
        if self._loop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._bus.is_open():
            self._detach()
        elif not self._bus.prepare_sleep():
            self._wake()
        else:
            longest = self._bus.longest_sleep() * 1e-9
            if self._replies:
                longest = min(longest, _SLEEP_S) if longest >= 0 else _SLEEP_S
            if longest >= 0:
                self._timer = self._loop.call_later(longest, self._on_loop)

    # Gives the replies that wait for room some time to be sent. Returns what is left of it.
    def _send_replies(self, longest: float) -> float:
        end = self._now() + (longest if longest >= 0 else math.inf)
        while self._replies and (left := end - self._now()) > 0:
            self._bus.wait(min(left, _SLEEP_S))
            self.poll()
        return longest if longest < 0 else max(end - self._now(), 0.0)

    def _reply_again(self) -> None:
        if self._replies:
            self._replies.send_again()

    # It leaves the loop once it has ended: an end that is refused, such as on another thread, changes nothing.
    def _end(self, call: Callable[[], _T]) -> _T:
        was_open = self._bus.is_open()  # False also on another thread
        try:
            value = call()
        except BaseException:
            if was_open and not self._bus.is_open():  # a handler has raised
                self._detach()
            raise
        self._detach()
        return value

    def _detach(self) -> None:
        loop, self._loop = self._loop, None
        if loop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        loop.remove_reader(self._descriptor)

    def _answering(self, handler: Callable[[Request], Any]) -> Callable[[_bus.Request], None]:
        def answer(of: _bus.Request) -> None:
            request = Request(of, self)
            if self._replies.is_full(request.source):
                return fail(request, "too many replies wait for room")
            try:
                value = handler(request)
                if value is not None and not inspect.iscoroutine(value):
                    self._replies.send(request, value)
            except BaseException as raised:
                fail(request, text_of(raised))
                raise
            if inspect.iscoroutine(value):
                self._start(request, value)

        return answer

    def _start(self, request: Request, coroutine: Coroutine[Any, Any, Any]) -> None:
        loop = self._loop if self._simulation is None else self._simulation._loop
        if loop is None or loop.is_closed():
            coroutine.close()
            request.fail("the node runs on no asyncio loop")
            needed = "async with Node(...)" if self._simulation is None else "Simulation.run(...)"
            raise RuntimeError(f"a handler that is a coroutine needs `{needed}`")

        async def answer() -> None:
            try:
                value = await coroutine
                if value is not None:
                    self._replies.send(request, value)
                    self._wake()
            except BaseException as raised:
                fail(request, text_of(raised))
                self._wake()
                raise

        task = loop.create_task(answer())
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
