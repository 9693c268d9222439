"""How nodes in Python run: threads, processes, and how a run ends."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import atbus
from nodes import Recorded, new_address, until


def test_another_thread_is_refused_and_may_adopt():
    node = atbus.Node(1)
    told = []

    def other():
        try:
            node.send(1, 0, b"")
        except atbus.Error as error:
            told.append(str(error))
        node.adopt()
        node.send(1, 0, b"")

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert "another thread" in told[0]
    node.adopt()
    node.close()


def test_other_threads_send():
    with atbus.Node(1) as node:
        got = []
        node.on_message(lambda m: got.append(int(m.data)))

        def work(sender, first):
            for i in range(first, first + 500):
                sender.send(1, 0, str(i))

        threads = [threading.Thread(target=work, args=(node.thread_sender(), 1000 * k)) for k in range(3)]
        for thread in threads:
            thread.start()
        until([node], lambda: len(got) == 1500)
        for thread in threads:
            thread.join()
        for k in range(3):
            mine = [i for i in got if i // 1000 == k]
            assert mine == sorted(mine)


def test_run_ends_by_stop_and_by_a_signal():
    with atbus.Node(1) as node:
        node.on_message(lambda m: node.stop())
        node.send(1, 0, b"stop")
        node.run()
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            node.run()


def test_a_stop_before_run_is_not_forgotten():
    with atbus.Node(1) as node:
        node.on_message(lambda m: node.stop())
        node.send(1, 0, b"stop")
        node.poll()
        assert node.run() is True
        node.send(1, 0, b"stop")  # it has ended that one alone
        assert node.run() is True
        assert node.stats["delivered"] == 2


def test_run_tells_of_thousands_of_refused_messages(memory, tmp_path):
    rules = tmp_path / "access.toml"
    rules.write_text('register = "any"\nsend = []\n')
    token = "the token of these two nodes"
    count = 10_000  # more words than one poll reads
    with atbus.Node(1, token=token) as one, atbus.Node(2, token=token, access=str(rules)) as two:
        two.listen(memory)
        one.connect(2, memory)
        connected, told = [], []
        one.on_endpoint(lambda id, event: connected.append(event))
        one.on_undelivered(lambda what: told.append(what.count))
        until([one, two], lambda: connected)
        for _ in range(count):
            one.send(2, 8, b"no")
        one.flush()
        until([two], lambda: two.stats["access_denied"] == count)
        one.stop()
        assert one.run() is True
        assert sum(told) == count


def test_waiting_lets_other_threads_run():
    with atbus.Node(1) as node:
        ran = []
        thread = threading.Thread(target=lambda: ran.append(time.monotonic()))
        start = time.monotonic()
        thread.start()
        node.wait(0.3)
        thread.join()
        assert ran[0] < start + 0.25


def test_a_node_runs_on_its_thread_alone():
    with atbus.Node(1) as node:
        raised = []

        def run():
            try:
                node.run()
            except atbus.Error as error:
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert raised and raised[0].code == atbus.Code.invalid_argument


@pytest.mark.parametrize("what", ["node.run()", "node.shutdown(60)", "sender.send(2, 0, b'x' * 1000)", "fail(node)"])
def test_a_node_in_a_daemon_thread_ends_with_its_process(what):
    program = f"""
import atbus, threading, time
ready = threading.Event()
def fail(node):
    try:
        node.send(99, 0, b"to nobody")
    except atbus.Error:
        pass
def run():
    node = atbus.Node(1, overflow=atbus.Overflow.WOULD_BLOCK)
    node.connect(2, {new_address()!r})
    def again(message):
        node.send(1, 0, message.data)
        for _ in range(100):  # gives the interpreter's lock away
            time.sleep(0)
    node.on_message(again)
    node.send(1, 0, b"and again")
    if "shutdown" in {what!r}:
        node.request(2, 0, timeout=60)
    sender = node.thread_sender()
    ready.set()
    while True:
        {what}
for _ in range(8):
    threading.Thread(target=run, daemon=True).start()
ready.wait()
time.sleep(0.3)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_a_forked_child_sends_nothing(pair):
    one, two = pair
    child = os.fork()
    if child == 0:
        try:
            one.send(2, 0, b"of the child")
        except atbus.Error:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    got = []
    two.on_message(lambda m: got.append(m.data))
    one.send(2, 0, b"of the parent")
    until([one, two], lambda: got)
    assert got == [b"of the parent"]


def test_a_receiver_that_is_killed_loses_nothing():
    receiver = """
import atbus, os, sys
node = atbus.Node(2)
node.listen(sys.argv[1])
log = open(sys.argv[2], "a", buffering=1)
@node.on_message
def _(m):
    if m.data == b"end": node.stop()
    log.write(m.data.decode() + (" again" if m.redelivered else "") + "\\n")
node.run()
"""
    name = f"atbus-py-kill-{os.getpid()}"
    log = f"/dev/shm/{name}.log"
    try:
        with atbus.Node(1) as node:
            node.connect(2, f"shm://{name}")
            start = lambda: subprocess.Popen([sys.executable, "-c", receiver, f"shm://{name}", log])
            process = start()
            for i in range(20_000):
                while not node.try_send(2, 0, str(i)):
                    node.poll()
                    node.wait(0.01)
                if i % 4000 == 3999:
                    process.kill()
                    process.wait()
                    process = start()
            while not node.try_send(2, 0, "end"):
                node.poll()
            until([node], lambda: process.poll() is not None, 60)
        lines = open(log).read().split("\n")
        numbers = [line for line in lines if line and not line.endswith("again")]
        assert sorted(
            {int(n) for n in numbers if n != "end"} | {int(l.split()[0]) for l in lines if l.endswith("again")}
        ) == list(range(20_000))
        assert len(numbers) == len(set(numbers))
    finally:
        for path in (log, f"/dev/shm/atbus-segment.{name}", f"/dev/shm/atbus-bell.{name}"):
            if os.path.exists(path):
                os.unlink(path)


@pytest.mark.parametrize("end", [atbus.Node.stop, atbus.Node.close])
def test_run_does_not_wait_once_a_handler_has_ended_it(end):
    with atbus.Node(1) as node:
        node._bus = Recorded(node._bus)
        node.on_message(lambda _: end(node))
        node.send(1, 0, "end")
        node.run()
        assert node._bus.calls[-1] == "poll"
