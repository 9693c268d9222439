"""What a simulated bus refuses, and how it and its nodes end."""

import asyncio
import gc
import os
import signal
import threading
import weakref

import pytest

import atbus
from nodes import Desk, THERE


def test_errors_say_what_is_wrong(sim, desk):
    for call, text in (
        (lambda: sim.node(2), "running already"),
        (lambda: sim.node(3, children="no range"), "range"),
        (lambda: sim.node(3, childs="1/2"), "there is no option childs"),
        (lambda: sim.kill(3), "is not running"),
        (lambda: sim.restart(3), "was not started"),
        (lambda: sim.cut(1, 3), "was not started"),
        (lambda: sim.cut(1, 2, 7), "seen_by"),
        (lambda: sim.run_for(float("inf")), "100 years"),
        (lambda: sim.run_for(float("nan")), "not a number"),
        (lambda: sim.set_conditions(delay=(2, 1)), "delays"),
        (lambda: sim.set_conditions(delay=-1), "delays"),
        (lambda: sim.disturb(1, cuts=10**7), "1,000,000"),
        (lambda: sim.nodes[1].thread_sender().send(2, 0, b""), "does not offer"),
    ):
        with pytest.raises(atbus.Error, match=text):
            call()
    sim.node(3)
    with pytest.raises(atbus.Error, match="node 3 would be restarted without handlers"):
        sim.disturb(10)
    sim.disturb(10, restarts=0)
    for call in (lambda: atbus.Simulation(-1), lambda: sim.node("one"), lambda: sim.run_until(3)):
        with pytest.raises(TypeError):
            call()
    assert sorted(sim.nodes) == [1, 2, 3]
    sim.run_for(1)


@pytest.mark.parametrize("end", ["kill", "restart"])
@pytest.mark.parametrize("wait", ["run", "receive", "wait", "result", "shutdown"])
def test_a_process_may_end_while_its_node_waits(sim, desk, wait, end):
    one = desk.one
    desk.two.on_message(lambda _: {"kill": sim.kill, "restart": sim.restart}[end](1))
    one.send(2, 0, b"end")
    try:
        {
            "run": one.run,
            "receive": lambda: one.receive(timeout=None),
            "wait": lambda: [one.wait() for _ in range(1000)],
            "result": one.request(2, 1, timeout=50).result,
            "shutdown": one.shutdown,
        }[wait]()
    except atbus.Closed:
        assert wait != "run"
    assert not one.is_open and sim.now < 1
    sim.run_for(1)
    assert (1 in sim.nodes) == (end == "restart") and sim.nodes.get(1) is not one


def test_a_process_begins_anew_once_its_handler_has_returned(sim, desk):
    two, seen = desk.two, []

    def handler(message):
        if desk.begun == 1:
            sim.restart(2)
            for _ in range(10):
                desk.one.wait(1)
            seen.append((two.is_open, 2 in sim.nodes, desk.begun))

    two.on_message(handler)
    two.send(2, 0, b"replace")
    two.poll()
    assert seen == [(False, False, 1)]
    desk.one.send(2, 0, b"for the successor")
    assert sim.run_until_idle() and desk.got[-1] == b"for the successor" and desk.begun == 2


@pytest.mark.parametrize("again", ["restart", "node"])
def test_the_tasks_of_a_node_that_is_closed_and_started_anew_are_cancelled(sim, desk, again):
    told = []

    @desk.two.on_request
    async def _(request):
        told.append("asked")
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    async def main():
        asked = desk.one.request(2, 0, timeout=50)
        while not told:
            await asyncio.sleep(0.01)
        desk.two.close()
        if again == "restart":
            sim.restart(2)
        else:
            sim.node(2, desk.start, host=2)
        await asyncio.sleep(1)
        told.append("later")
        return asked

    sim.run(main())
    assert told == ["asked", "cancelled", "later"] and sim.nodes[2] is not desk.two


def test_conditions_may_change_while_faults_are_planned(sim, desk):
    assert sim.run_until_idle()
    sim.disturb(30, cuts=0, delays=10, stops=0, restarts=0, clock_steps=0)
    sim.run_for(1)
    sim.set_conditions(delay=0.01, refuses=True)
    sim.run_for(30)
    for i in range(20):
        before = sim.now
        desk.one.send(2, 0, str(i))
        assert sim.run_until(lambda: len(desk.got) == i + 1)
        assert 0.0099 < sim.now - before < 0.02
    sim.cut(1, 2)
    desk.one.send(2, 0, b"refused")
    assert not sim.run_until_idle()
    sim.set_conditions()
    assert sim.run_until_idle(600)


class Handler:
    """Refers to its node, which refers to it."""

    def __init__(self, node):
        self.node = node

    def __call__(self, _):
        pass


@pytest.mark.parametrize("end", ["close", "kill", "drop"])
def test_nodes_that_end_forget_their_handlers(end):
    sim = atbus.Simulation(1)
    sim.node(2, lambda node: node.on_message(Handler(node)))
    handler = Handler(sim.nodes[2])
    seen = [weakref.ref(handler), weakref.ref(handler.node)]
    handler.node.on_request(handler)
    del handler
    sim.run_for(1)
    if end == "close":
        sim.close()
    else:
        sim.kill(2)
    sim = None if end == "drop" else sim
    gc.collect()
    if end == "kill":
        sim.run_for(0)
        gc.collect()
    assert [one() for one in seen] == [None, None]


def test_nothing_works_once_it_is_closed(caplog):
    sim = atbus.Simulation(1)
    desk = Desk(sim)
    pending = desk.one.request(2, 0, timeout=50)
    sim.run_for(0.0001)
    sim.close()
    sim.close()
    assert pending.done() and pending.outcome().code == atbus.Code.closed
    assert not desk.one.is_open and sim.nodes == {}
    for call in (
        lambda: sim.run_for(1),
        lambda: sim.now,
        lambda: sim.seed,
        lambda: sim.node(3),
        lambda: sim.kill(1),
        lambda: sim.run(asyncio.sleep(1)),
        lambda: desk.one.send(2, 0, b""),
        lambda: desk.one.poll(),
    ):
        with pytest.raises(atbus.Closed):
            call()
    gc.collect()
    assert not caplog.records  # of a task that nobody ends


def test_another_thread_is_refused(sim, desk):
    told = []

    def other():
        for call in (lambda: sim.run_for(1), lambda: sim.kill(2), sim.close, desk.one.adopt, desk.one.poll):
            try:
                call()
            except atbus.Error as error:
                told.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert len(told) == 5 and all("thread" in text or "adopt its simulation" in text for text in told)
    desk.one.send(2, 0, b"one")
    assert sim.run_until_idle()


def test_a_forked_child_can_not_use_it(sim, desk):
    child = os.fork()
    if child == 0:
        try:
            sim.run_for(1)
        except atbus.Error as error:
            os._exit(0 if error.code == atbus.Code.used_after_fork else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    desk.one.send(2, 0, b"of the parent")
    assert sim.run_until_idle() and desk.got == [b"of the parent"]


def test_a_signal_interrupts_it(sim, desk):
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        sim.run_for(3e9)
    timer.join()
    sim.run_for(1)


@pytest.mark.parametrize("first", ["simulation", "nodes", "together", "closed"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_they_end_in_any_order_on_any_thread(first, elsewhere):
    sim = atbus.Simulation(1)
    bus, seen = sim._bus, weakref.ref(sim)
    nodes = [sim.node(2, lambda node: node.listen(THERE)), sim.node(1)]
    nodes[1].connect(2, THERE)
    outcomes = []
    # A Pending would refer to its node.
    nodes[1]._bus.request(2, 0, b"", 50, lambda code, *_: outcomes.append(code))
    sim.run_for(0.0001)
    buses = [node._bus for node in nodes]
    if first == "closed":
        sim.close()
    del sim
    nodes.clear()
    gc.collect()
    assert seen() is None
    bus_holder = [bus]
    del bus
    drops = [bus_holder.clear, buses.clear]
    if first == "nodes":
        drops.reverse()
    if first == "together":
        drops = [lambda: (bus_holder.clear(), buses.clear())]
    for drop in drops:
        if elsewhere:
            thread = threading.Thread(target=drop)
            thread.start()
            thread.join()
        else:
            drop()
        gc.collect()
        if not buses:  # whether the simulation is still there or not
            assert outcomes == [atbus.Code.closed]
    assert not bus_holder and not buses


def test_thousands_of_simulations_leave_nothing_behind():
    def run_some(count):
        for seed in range(count):
            with atbus.Simulation(seed) as sim:
                desk = Desk(sim)
                desk.one.send(2, 0, b"x" * 1000)
                sim.restart(2)
                assert sim.run_until_idle()

    def memory():
        gc.collect()
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4096

    run_some(1000)
    before = memory()
    run_some(10_000)
    assert memory() - before < 2 << 20
