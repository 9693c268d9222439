"""Nodes of tests, in simulated time."""

from __future__ import annotations

import asyncio
import enum
import selectors
import weakref
from typing import Any, Callable, Coroutine, Dict, List, NoReturn, Optional, Tuple, TypeVar, Union

from . import _bus
from ._errors import Code, make_error
from ._node import Node

_T = TypeVar("_T")
_TURN_S = 1e-6  # how long a turn of the asyncio loop takes
_SHORTEST_S = 2e-9  # a time that is at least a nanosecond, however it is rounded


class SeenBy(enum.IntEnum):
    """Which ends of a link notice that it ends."""

    BOTH = 0
    ONE = 1
    NONE = 2


class Simulation:
    """A simulated bus for tests: several nodes in one thread, on a network and a clock in memory.

    with atbus.Simulation(seed=7) as sim:
        desk = sim.node(2, start_desk)  # start_desk(node): sets handlers, listens and connects, as the program does
        customer = sim.node(1)
        customer.connect(2, "ipv4://10.0.0.2:7000")
        sim.disturb(30)
        customer.send(2, 0, "an apple")
        assert sim.run_until_idle()

    The nodes run the same code as in production, and any address works: nothing is opened. Time advances only in the
    functions that run the simulation, and in those of its nodes that wait. Handlers run there, and what they raise is
    raised there. They can neither run nor close the simulation. The same seed and the same program make the same run;
    without a seed one is drawn, or taken from the environment variable ATBUS_SIMULATION_SEED, and printed to stderr.

    One thread uses a simulation and its nodes. When it is closed, so are they.
    """

    def __init__(self, seed: Optional[int] = None) -> None:
        self._nodes: Dict[int, Node] = {}  # of the processes that have not ended
        self._ended: List[Node] = []  # a handler of theirs may be running
        self._starts: Dict[int, Optional[Callable[[Node], Any]]] = {}
        self._options: Dict[int, Dict[str, Any]] = {}
        self._loop: Optional[_Loop] = None
        me = weakref.ref(self)

        def begun(bus: _bus.Node) -> None:
            simulation = me()
            if simulation is not None:
                simulation._begin(bus)

        def ended(id: int) -> None:
            simulation = me()
            if simulation is not None:
                simulation._end(id)

        self._bus = _bus.Simulation(seed, begun, ended)

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Kills all processes and ends the simulation."""
        if self._loop is not None:
            raise make_error(Code.invalid_argument, "closing the simulation is not possible within its run()")
        self._bus.close()
        self._ended.clear()

    @property
    def seed(self) -> int:
        """The seed, to run the simulation again."""
        return self._bus.seed()

    @property
    def now(self) -> float:
        """Seconds since the simulation was made."""
        return self._bus.now() * 1e-9

    # Processes.

    def node(self, id: int, start: Optional[Callable[[Node], Any]] = None, *, host: int = 1, **options: Any) -> Node:
        """Starts a process with one node, which has these options (and allow_unauthenticated, unless they say
        otherwise), and returns the node. Calls start(node) now, and with another node at each restart. Processes of
        one host share memory and Unix sockets."""
        options.setdefault("allow_unauthenticated", True)
        was_running = self._bus.is_running(id)
        former = self._starts.get(id), self._options.get(id, {})
        self._starts[id], self._options[id] = start, options
        try:
            self._bus.start(id, host, options)
        except BaseException:
            self._starts[id], self._options[id] = former
            if not was_running and self._bus.is_running(id):  # start has raised
                self._bus.kill(id)
            raise
        return self._nodes[id]

    @property
    def nodes(self) -> Dict[int, Node]:
        """The nodes of the processes that are running, by their ids."""
        return {id: node for id, node in self._nodes.items() if node.is_open}

    def kill(self, id: int) -> None:
        """Ends the process as SIGKILL does, and cancels the tasks of its handlers."""
        self._bus.kill(id)

    def restart(self, id: int) -> None:
        """Starts that process anew; kills it first if it is running. Within a handler: once that has returned."""
        self._bus.restart(id)

    def stop_for(self, id: int, seconds: float) -> None:
        """Stops the process as SIGSTOP does, and continues it after that time."""
        self._bus.stop_for(id, seconds)

    def step_clock(self, id: int, seconds: float) -> None:
        """Moves the clock of the process ahead."""
        self._bus.step_clock(id, seconds)

    # The network.

    def cut(self, one: int, other: int, seen_by: SeenBy = SeenBy.BOTH) -> None:
        """Ends the links between two nodes, except through memory. In each direction, what is in flight is lost from
        a random message on."""
        self._bus.cut(one, other, seen_by)

    def separate(self, one: int, other: int) -> None:
        """Blocks TCP between the two nodes until they are joined; neither is notified."""
        self._bus.separate(one, other)

    def join(self, one: int, other: int) -> None:
        """Ends a separation."""
        self._bus.join(one, other)

    def set_conditions(
        self, delay: Union[float, Tuple[float, float], None] = None, refuses: bool = False, swallows: bool = False
    ) -> None:
        """Sets the conditions for links made, and messages sent, from now on. `delay`: how long a message is on its
        way, or the shortest and the longest time; None: 50 to 500 us. `refuses`: new connections are refused;
        `swallows`: they get no answer."""
        shortest, longest = delay if isinstance(delay, tuple) else (delay, delay)
        self._bus.set_conditions(shortest, longest, refuses, swallows)

    def disturb(
        self,
        seconds: float,
        *,
        cuts: int = 4,
        delays: int = 2,
        refusals: int = 1,
        stops: int = 1,
        restarts: int = 1,
        clock_steps: int = 1,
    ) -> None:
        """Plans so many faults of each kind, at random moments of the time to come. At its end all faults are over,
        and all processes that they stopped or killed are running."""
        bare = [id for id in self.nodes if self._starts.get(id) is None]
        if restarts and bare:
            raise make_error(
                Code.invalid_argument,
                f"node {bare[0]} would be restarted without handlers: give sim.node a function that sets them, "
                "or disturb with restarts=0",
            )
        self._bus.disturb(seconds, (cuts, delays, refusals, stops, restarts, clock_steps))

    # Time.

    def run_for(self, seconds: float) -> None:
        """Runs for that time."""
        self._run(seconds, False, None)

    def run_until(self, holds: Callable[[], Any], timeout: float = 60.0) -> bool:
        """Runs until holds() is true, and calls it first and after each event. False: it was not within `timeout`."""
        return self._run(timeout, False, holds)

    def run_until_idle(self, timeout: float = 60.0) -> bool:
        """Runs until nothing is in flight, no fault is planned, and every accepted message is delivered or reported.
        False: not within `timeout`."""
        return self._run(timeout, True, None)

    def run(self, main: Coroutine[Any, Any, _T], timeout: float = 60.0) -> _T:
        """Runs a coroutine on an asyncio loop in simulated time, and returns what it returns. All that waits, such as
        asyncio.sleep and `await node.request(...)`, takes simulated time; sockets and threads can't be waited for.
        Handlers of requests may be coroutines meanwhile. Raises TimedOut if it takes longer than `timeout`. At the end
        the tasks that are left are cancelled."""
        try:
            self._bus.now()  # it may be closed
            if self._loop is not None or asyncio._get_running_loop() is not None:
                raise make_error(Code.invalid_argument, "an asyncio loop is running already in this thread")
            loop = _Loop(self)
        except BaseException:
            if asyncio.iscoroutine(main):
                main.close()  # it is not awaited
            raise
        self._loop = loop
        late = False

        def end() -> None:
            nonlocal late
            late = True
            task.cancel()

        try:
            task = loop.create_task(main)
            loop.call_later(timeout, end)
            return loop.run_until_complete(task)
        except asyncio.CancelledError:
            if not late:
                raise
            text = f"the coroutine has not ended within {timeout} simulated seconds"
            raise make_error(Code.timed_out, text) from None
        finally:
            try:
                loop.cancel_all()
            finally:
                self._loop = None
                loop.close()

    def _run(self, longest: float, until_idle: bool, holds: Optional[Callable[[], Any]]) -> bool:
        done = self._bus.run(longest, until_idle, holds)
        self._ended.clear()
        return done

    def _begin(self, bus: _bus.Node) -> None:
        node = Node._of(bus, self, self._options[bus.id()])
        self._nodes[node.id] = node
        start = self._starts.get(node.id)
        if start is not None:
            start(node)

    def _end(self, id: int) -> None:
        node = self._nodes.pop(id, None)
        if node is None:
            return
        self._ended.append(node)
        for task in node._tasks:
            task.cancel()
        node.close()


class _Selector(selectors.DefaultSelector):
    """Runs the simulation where others wait for sockets."""

    loop: Optional[_Loop] = None

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self.loop is not None:
            raise make_error(Code.not_supported, "a coroutine in simulated time can't wait for sockets")
        return super().register(fileobj, events, data)  # what the loop wakes itself with

    def select(self, timeout: Optional[float] = None) -> List[Tuple[selectors.SelectorKey, int]]:
        assert self.loop is not None
        self.loop.pass_time(timeout)
        return []


class _Loop(asyncio.SelectorEventLoop):
    """An asyncio loop on the clock of a simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._woken = False
        selector = _Selector()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self._simulation.now

    def pass_time(self, longest: Optional[float]) -> None:
        if longest is not None and longest <= 0:
            self._simulation.run_for(_TURN_S)
            return
        self._woken = False
        # Without an end only where a task that is cancelled waits for something without a limit.
        limit = 60.0 if longest is None else max(longest, _SHORTEST_S)
        if not self._simulation.run_until(lambda: self._woken, limit) and longest is None:
            raise make_error(Code.timed_out, "a task that was cancelled waits for ever")

    def call_soon(self, *what: Any, **context: Any) -> asyncio.Handle:  # type: ignore[override]
        self._woken = True
        return super().call_soon(*what, **context)

    def call_at(self, *what: Any, **context: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        self._woken = True
        return super().call_at(*what, **context)

    def run_in_executor(self, *_: Any) -> NoReturn:  # type: ignore[override]
        raise make_error(Code.not_supported, "a coroutine in simulated time can't wait for threads")

    def cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        if tasks:
            self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.run_until_complete(self.shutdown_asyncgens())
