"""Nodes in Python on a simulated bus."""

import asyncio
import gc
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

import atbus
from nodes import THERE


def test_the_example_of_the_documentation_passes():
    text = (pathlib.Path(__file__).parents[3] / "doc" / "python.md").read_text()
    section = text.split("## Testing handlers\n")[1].split("\n## ")[0]
    example = re.search(r"```python\n(.*?)```", section, re.S).group(1)
    assert len(example.splitlines()) <= 20
    names = {}
    exec(example, names)
    names["test_desk"]()


def test_time_passes_only_when_it_is_run(sim, desk):
    began = time.monotonic()
    desk.one.send(2, 0, b"one")
    assert sim.now == 0 and desk.got == []
    assert sim.run_until_idle()
    assert desk.got == [b"one"] and 0 < sim.now < 1
    sim.run_for(3600)
    assert 3600 <= sim.now < 3602
    assert sim.run_until(lambda: len(desk.got) == 2, timeout=3600) is False
    desk.one.send(2, 0, b"two")
    assert sim.run_until(lambda: len(desk.got) == 2) is True
    assert time.monotonic() - began < 600


def test_nodes_have_the_same_functions(sim, desk):
    two, one = desk.two, desk.one
    assert isinstance(two, atbus.Node) and (two.id, one.id) == (2, 1)
    told, undelivered, events = [], [], []
    two.on_request(lambda request: request.data[::-1])
    two.on_command(lambda command: command.reply(command.words))
    one.on_endpoint(lambda *event: events.append(event))
    one.on_undelivered(undelivered.append)
    two.on_log(told.append)
    assert sim.run_until_idle()
    asked, commanded = one.request(2, 1, b"abc"), one.command(2, "do", "it")
    one.broadcast(3, b"all")
    assert sim.run_until(lambda: asked.done() and commanded.done() and desk.got)
    assert (asked.result(), commanded.result()) == (b"cba", ["do", "it"])
    assert events == [(2, atbus.Endpoint.CONNECTED)]
    assert one.stats["accepted"] >= 1 and two.addresses == [THERE]
    # Those that wait run the simulation.
    assert one.request(2, 1, b"xyz").result() == b"zyx"
    before = sim.now
    assert two.receive(timeout=30) == []
    assert 29.9 < sim.now - before < 31
    one.send(2, 0, b"batch")
    assert [bytes(m.data) for m in two.receive(timeout=None)] == [b"batch"]
    assert not one.wait(5) or one.is_open
    assert one.shutdown(5) is True
    assert not one.is_open and list(sim.nodes) == [2]


@pytest.mark.parametrize("tokens", [("first", "first"), ("first", "second"), ("first", None), (None, "second")])
def test_tokens_are_proven(sim, tokens):
    options = [{"token": f"the {one} token of this test"} if one else {} for one in tokens]
    one, two = (sim.node(id, **all) for id, all in zip((1, 2), options))
    events = []
    one.on_endpoint(lambda id, event: events.append(event))
    two.listen(THERE)
    one.connect(2, THERE)
    sim.run_for(5)
    assert events[0] == (atbus.Endpoint.CONNECTED if tokens[0] == tokens[1] else atbus.Endpoint.REFUSED)


def test_clients_ask(sim, desk):
    desk.two.on_request(lambda request: b"for %d" % request.source)
    client = sim.node(0)
    client.connect(0, THERE)
    assert client.request(0, 1).result() == b"for 0"


def test_run_of_a_node_runs_the_others(sim, desk):
    desk.two.on_message(lambda m: desk.two.send(m.source, 0, m.data))
    desk.one.on_message(lambda m: desk.one.stop())
    desk.one.send(2, 0, b"there and back")
    desk.one.run()
    assert desk.one.is_open and 0 < sim.now < 2
    sim.run_for(5)
    assert desk.one.is_open


def test_run_waits_for_outcomes_after_stop(sim, desk):
    @desk.one.on_endpoint
    def _(id, event):
        desk.one.send(2, 0, b"bye")
        desk.one.stop()

    assert desk.one.run() is True
    assert desk.got == [b"bye"]


@pytest.mark.parametrize("options", [{}, {"drain": None}, {"drain": 0.5}, {"drain": 0}])
def test_run_waits_no_longer_than_drain(sim, options):
    node = sim.node(1, **options)
    stopped = []

    @node.on_message
    def _(message):
        node.send_required(2, 0, b"no node 2 is there")
        node.stop()
        stopped.append(sim.now)

    node.connect(2, THERE)
    node.send(1, 0, b"stop")
    assert node.run() is False
    assert sim.now - stopped[0] == pytest.approx(5 if options.get("drain") is None else options["drain"], abs=0.1)


def test_a_node_that_stops_ends_its_process(sim, desk):
    desk.two.on_message(lambda m: desk.two.stop())
    desk.one.send(2, 0, b"stop")
    assert sim.run_until(lambda: 2 not in sim.nodes)
    assert not desk.two.is_open


def test_processes_are_killed_and_restarted(sim, desk):
    assert sim.run_until_idle()
    sim.kill(2)
    assert not desk.two.is_open and list(sim.nodes) == [1]
    with pytest.raises(atbus.Closed):
        desk.two.send(1, 0, b"")
    desk.one.send(2, 0, b"for the successor")
    assert not sim.run_until_idle(5)
    sim.restart(2)
    assert sim.nodes[2] is not desk.two and sim.nodes[2].is_open
    assert sim.run_until_idle()
    assert desk.got == [b"for the successor"] and desk.begun == 2


@pytest.mark.parametrize("directly", [False, True])
@pytest.mark.parametrize("end", ["kill", "restart", "close", "drop"])
def test_a_process_may_be_ended_by_its_handler(sim, desk, end, directly):
    def end_it(message):
        desk.got.append(message.data)
        desk.two = None
        {
            "kill": lambda: sim.kill(2),
            "restart": lambda: sim.restart(2),
            "close": lambda: sim.nodes[2].close(),
            "drop": lambda: (sim.kill(2), gc.collect()),
        }[end]()
        raise KeyError("of its end")

    node = desk.two
    node.on_message(end_it)
    (node if directly else desk.one).send(2, 0, b"end")
    with pytest.raises(KeyError):
        if directly:
            node.poll()
        else:
            del node
            sim.run_for(1)
    sim.run_for(1)
    # A successor gets it again: its handler has not returned before the end.
    assert desk.got == [b"end"] * (2 if end == "restart" and not directly else 1)
    assert (2 in sim.nodes) == (end == "restart")


def test_faults(sim, desk):
    events = []
    assert sim.run_until_idle()
    desk.one.on_endpoint(lambda id, event: events.append(event))
    sim.cut(1, 2)
    sim.run_for(10)
    assert events == [atbus.Endpoint.DISCONNECTED, atbus.Endpoint.CONNECTED]
    sim.cut(1, 2, atbus.SeenBy.NONE)
    sim.separate(1, 2)
    desk.one.send(2, 0, b"parted")
    assert not sim.run_until_idle() and desk.got == []
    sim.join(1, 2)
    assert sim.run_until_idle() and desk.got == [b"parted"]
    sim.set_conditions(delay=2)
    desk.one.send(2, 0, b"slow")
    sim.run_for(1.9)
    assert len(desk.got) == 1
    sim.run_for(0.5)
    assert len(desk.got) == 2
    sim.set_conditions(delay=(0, 0.001))
    sim.stop_for(2, 20)
    desk.one.send(2, 0, b"stopped")
    sim.run_for(19)
    assert len(desk.got) == 2
    assert sim.run_until_idle() and len(desk.got) == 3
    sim.step_clock(2, 60)
    sim.set_conditions(refuses=True)
    sim.restart(2)
    sim.run_for(20)
    desk.one.send(2, 0, b"refused")
    assert not sim.run_until_idle()
    sim.set_conditions()
    assert sim.run_until_idle(600) and desk.got[-1] == b"refused"


def story(seed):
    """All that two nodes and a coroutine are told under faults."""
    told = []
    with atbus.Simulation(seed) as sim:

        def start(node):
            node.listen(THERE)
            node.on_message(lambda m: told.append((sim.now, m.data, m.redelivered)))

            @node.on_request
            async def _(request):
                await asyncio.sleep(0.1)
                return request.data + b" answered"

        def start_customer(node):
            node.connect(2, THERE)
            node.on_endpoint(lambda *event: told.append((sim.now, *event)))

        async def main():
            for i in range(40):
                if 1 in sim.nodes:
                    one = sim.nodes[1]
                    one.send(2, 0, f"message {i}")
                    asked = [one.request(2, 0, f"{i} {k}", timeout=3) for k in range(3)]
                    for outcome in await asyncio.gather(*asked, return_exceptions=True):
                        told.append((sim.now, str(outcome)))
                await asyncio.sleep(0.5)

        sim.node(2, start)
        sim.node(1, start_customer)
        sim.disturb(20, cuts=10, restarts=3)
        sim.run(main(), timeout=600)
        assert sim.run_until_idle(300)
        assert sorted(sim.nodes) == [1, 2] and sim.seed == seed
    return told


def test_the_same_seed_makes_the_same_run():
    stories = {seed: story(seed) for seed in range(1, 8)}
    for seed, told in stories.items():
        assert len(told) > 20
        assert story(seed) == told and story(seed + 100) != told
    # In another process too, where hashes and addresses are others.
    paths = os.pathsep.join([str(pathlib.Path(__file__).parent), *sys.path])

    def elsewhere(hashes):
        environment = dict(os.environ, PYTHONPATH=paths, PYTHONHASHSEED=hashes)
        program = "import test_simulation; print(test_simulation.story(3))"
        return subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)

    assert elsewhere("1") == elsewhere("2") == f"{stories[3]}\n"


def test_a_seed_is_drawn_and_printed_or_taken_from_the_environment(capfd, monkeypatch):
    monkeypatch.delenv("ATBUS_SIMULATION_SEED", raising=False)
    with atbus.Simulation() as sim:
        assert f"ATBUS_SIMULATION_SEED={sim.seed} " in capfd.readouterr().err
    monkeypatch.setenv("ATBUS_SIMULATION_SEED", "4711")
    with atbus.Simulation() as sim, atbus.Simulation(3) as other:
        assert (sim.seed, other.seed) == (4711, 3)


def test_a_handler_that_raises_ends_what_runs_it(sim, desk):
    def handler(message):
        desk.got.append(message.data)
        raise KeyError(message.data)

    desk.two.on_message(handler)
    desk.one.send(2, 0, b"1")
    with pytest.raises(KeyError):
        sim.run_for(50)
    assert sim.now < 1
    sim.run_for(50)
    desk.one.send(2, 0, b"2")
    with pytest.raises(KeyError):
        desk.one.poll()
        desk.one.wait(5)
        desk.one.wait(5)
    desk.one.send(2, 0, b"3")
    with pytest.raises(KeyError):
        sim.run(asyncio.sleep(30))
    assert desk.got == [b"1", b"2", b"3"]
    with pytest.raises(ZeroDivisionError):
        sim.run_until(lambda: 1 // 0)

    def raises(node):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sim.node(3, raises)
    assert 3 not in sim.nodes
    sim.run_for(1)


def test_asyncio_runs_in_simulated_time(sim, desk):
    @desk.two.on_request
    async def _(request):
        await asyncio.sleep(60)
        if request.type == 1:
            raise ValueError("in a task")
        return request.data.upper()

    async def main():
        async with desk.one as one:
            before = sim.now
            answers = await asyncio.gather(*(one.request(2, 0, f"order {i}", timeout=100) for i in range(50)))
            assert answers == [b"ORDER %d" % i for i in range(50)]
            assert 60 <= sim.now - before < 62
            asyncio.get_running_loop().set_exception_handler(lambda *_: None)
            with pytest.raises(atbus.Error, match="ValueError: in a task"):
                await one.request(2, 1, timeout=100)
            with pytest.raises(atbus.TimedOut):
                await one.request(2, 0, timeout=5)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(one.request(2, 0, timeout=100), 0.05)
            before = sim.now
            for _ in range(1000):
                await asyncio.sleep(0)
            assert sim.now > before  # who polls sees time pass, too
            assert asyncio.get_running_loop().time() == sim.now
            return "done"

    began = time.monotonic()
    assert sim.run(main(), timeout=1000) == "done"
    assert time.monotonic() - began < 60
    assert not desk.one.is_open


def test_a_killed_process_takes_its_tasks_with_it(sim, desk):
    steps = []

    def start(node):
        desk.start(node)

        @node.on_request
        async def _(request):
            steps.append("asked")
            await asyncio.sleep(1)
            steps.append("written")
            return b"done"

    sim.kill(2)
    desk.two = sim.node(2, start)

    async def main():
        asked = desk.one.request(2, 0, timeout=50)
        while not steps:
            await asyncio.sleep(0.01)
        sim.kill(2)
        await asyncio.sleep(10)
        assert steps == ["asked"]
        sim.restart(2)
        assert await asked == b"done"  # of the successor
        assert steps == ["asked", "asked", "written"]

    sim.run(main())


def test_what_a_coroutine_can_not_do(sim, desk):
    loops = []

    async def forever():
        loops.append(asyncio.get_running_loop())
        await asyncio.get_running_loop().create_future()

    with pytest.raises(atbus.TimedOut, match="within 20 simulated seconds"):
        sim.run(forever(), timeout=20)
    assert 20 <= sim.now < 21 and loops[0].is_closed()

    async def nested():
        with pytest.raises(atbus.Error, match="running already"):
            sim.run(forever())
        with pytest.raises(atbus.Error, match="within its run"):
            sim.close()
        with pytest.raises(atbus.Error, match="threads"):
            await asyncio.get_running_loop().run_in_executor(None, print)
        with pytest.raises(atbus.Error, match="sockets"):
            asyncio.get_running_loop().add_reader(0, print)
        sim.run_for(1)  # takes time, as any code that blocks
        raise ValueError("of the coroutine")

    with pytest.raises(ValueError):
        sim.run(nested())

    async def elsewhere():
        with pytest.raises(atbus.Error, match="Simulation.run"):
            await desk.one.request(2, 0)
        with pytest.raises(atbus.Error, match="Simulation.run"):
            desk.one.attach()

    asyncio.run(elsewhere())

    @desk.two.on_request
    async def _(request):
        return b""

    with pytest.raises(RuntimeError, match="Simulation.run"):
        sim.run_for(1)
    with pytest.raises(TypeError):
        sim.run(3)


def test_handlers_neither_run_nor_close_it(sim, desk):
    refused = []

    def try_all(_):
        for call in (sim.close, lambda: sim.run_for(1), sim.run_until_idle, lambda: sim.node(3)):
            try:
                call()
            except atbus.Error as error:
                refused.append((error.code, "within this callback" in str(error)))

    desk.two.on_message(try_all)
    desk.one.send(2, 0, b"")
    assert sim.run_until_idle()
    assert refused == [(atbus.Code.invalid_argument, True)] * 4
    desk.two.send(2, 0, b"")
    desk.two.poll()
    assert len(refused) == 8
    assert sim.run_until(lambda: try_all(None) or True)
    assert len(refused) == 12 and 3 not in sim.nodes
