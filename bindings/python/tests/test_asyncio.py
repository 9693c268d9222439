"""Nodes in Python on a loop of asyncio."""

import asyncio
import threading
import time

import pytest

import atbus
from nodes import new_address, until


def test_asyncio():
    async def main():
        async with atbus.Node(1) as one, atbus.Node(2) as two:
            two.listen(new_address())
            one.connect(2, two.addresses[0])

            @two.on_request
            async def _(request):
                await asyncio.sleep(0.01)
                if request.type == 1:
                    raise ValueError("in a task")
                return request.data[::-1]

            answers = await asyncio.gather(*(one.request(2, 0, str(i)) for i in range(10, 60)))
            assert answers == [str(i)[::-1].encode() for i in range(10, 60)]
            asyncio.get_running_loop().set_exception_handler(lambda *_: None)
            with pytest.raises(atbus.Error, match="ValueError: in a task"):
                await one.request(2, 1)
            with pytest.raises(atbus.TimedOut):
                two.on_request(lambda r: kept.append(r))
                await one.request(2, 0, timeout=0.05)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(one.request(2, 0, timeout=60), 0.05)
            later = asyncio.get_running_loop().create_future()
            two.on_request(lambda r: later.set_result(r))
            pending = one.request(2, 0, timeout=60)
            (await asyncio.wait_for(later, 20)).reply(b"later")
            assert await asyncio.wait_for(pending, 20) == b"later"
            got = asyncio.get_running_loop().create_future()
            two.on_message(lambda m: got.set_result(m.data))
            one.send(2, 0, b"message")
            assert await asyncio.wait_for(got, 20) == b"message"

    kept = []
    asyncio.run(main())


@pytest.mark.parametrize("end", ["shutdown", "close"])
def test_a_refused_end_leaves_a_node_on_its_asyncio_loop(end):
    async def main():
        async with atbus.Node(1) as one, atbus.Node(2) as two:
            two.listen(new_address())
            one.connect(2, two.addresses[0])
            refused = []

            def try_to_end():
                try:
                    two.shutdown(1) if end == "shutdown" else two.close()
                except atbus.Error as error:
                    refused.append(error.code)

            def end_it(request):
                if end == "shutdown":  # which handlers can't
                    try_to_end()
                else:
                    thread = threading.Thread(target=try_to_end)
                    thread.start()
                    thread.join()
                return b"refused"

            two.on_request(end_it, type=1)
            two.on_request(lambda r: b"it goes on", type=2)
            assert await one.request(2, 1, timeout=20) == b"refused"
            assert refused == [atbus.Code.invalid_argument]
            assert await one.request(2, 2, timeout=20) == b"it goes on"

    asyncio.run(main())


def test_a_node_that_ends_itself_leaves_its_asyncio_loop():
    async def main():
        node = atbus.Node(1)
        node.attach()
        descriptor = node._bus.descriptor()
        node.on_message(lambda m: node.close())
        node.send(1, 0, b"")
        while node.is_open:
            await asyncio.sleep(0)
        assert not asyncio.get_running_loop().remove_reader(descriptor)

    asyncio.run(main())


def test_an_idle_node_on_asyncio_does_not_spin():
    async def main():
        async with atbus.Node(1) as one, atbus.Node(2) as two:
            two.listen(new_address())
            one.connect(2, two.addresses[0])
            await asyncio.sleep(0.3)
            before = time.process_time()
            await asyncio.sleep(0.5)
            assert time.process_time() - before < 0.1

    asyncio.run(main())


@pytest.mark.parametrize("call", ["poll()", "receive()", "wait(0)", "request(2, 0).result()"])
def test_a_node_on_asyncio_sleeps_anew_behind_what_has_woken_it(memory, call):
    async def main():
        with atbus.Node(1) as one:
            async with atbus.Node(2, report_directory="") as two:  # a report would wake it each second
                two.listen(memory)
                two.on_request(lambda request: b"")
                one.connect(2, two.addresses[0])
                one.on_endpoint(lambda *_: connected.append(True))
                while not connected:
                    one.poll()
                    await asyncio.sleep(0)
                await asyncio.sleep(0.05)  # the loop sleeps
                one.send(2, 0, b"this wakes it")
                eval(f"two.{call}")
                rung = asyncio.get_running_loop().create_future()
                two.on_message(lambda m: m.data == b"ring" and rung.set_result(True))
                await asyncio.sleep(0.05)
                one.send(2, 0, b"ring")
                assert await asyncio.wait_for(rung, 20)

    connected = []
    asyncio.run(main())


def test_a_node_goes_on_on_another_loop():
    async def first():
        node.attach()

    async def second():
        node.attach()
        got = asyncio.get_running_loop().create_future()
        node.on_message(lambda m: got.set_result(m.data))
        assert await asyncio.wait_for(got, 20) == b"for the next loop"

    with atbus.Node(1) as node:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(first())
        node.send(1, 0, b"for the next loop")
        loop.close()
        asyncio.run(second())


def test_what_no_loop_runs_can_not_be_awaited():
    async def main():
        with atbus.Node(1) as node:
            pending = node.request(1, 0, timeout=60)
            with pytest.raises(atbus.Error, match="async with"):
                await asyncio.wait_for(pending, 20)
            with pytest.raises(atbus.Error) as failed:
                pending.result()
            assert failed.value.code == atbus.Code.unknown_request

    asyncio.run(main())


def test_a_node_goes_on_behind_the_end_of_its_loop(pair):
    one, two = pair

    async def attach():
        two.attach()

    asyncio.run(attach())
    one.send(2, 0, b"behind it")
    one.flush()
    got = two.receive(timeout=20)  # not lost to what the loop says
    assert [bytes(m.data) for m in got] == [b"behind it"]
    assert two.wait(0) is False
    assert two.poll() == 0


def test_a_request_behind_the_end_of_its_loop_fails(pair):
    one, two = pair

    async def answer(request):
        return b"never"

    async def attach():
        two.attach()

    two.on_request(answer)
    asyncio.run(attach())
    pending = one.request(2, 0, timeout=60)
    one.flush()
    with pytest.raises(RuntimeError, match="needs `async with"):
        until([two], lambda: False)
    until([one, two], pending.done)
    with pytest.raises(atbus.Error, match="no asyncio loop"):
        pending.result()


def test_a_call_on_another_thread_leaves_an_attached_node_to_its_loop():
    async def main():
        async with atbus.Node(1) as node:
            await asyncio.sleep(0.01)  # it sleeps

            def use():
                with pytest.raises(atbus.Error) as raised:
                    node.poll()
                return raised.value.code

            code = await asyncio.get_running_loop().run_in_executor(None, use)
            assert code == atbus.Code.invalid_argument

    asyncio.run(main(), debug=True)
