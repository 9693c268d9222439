"""Requests and commands of nodes in Python."""

import threading
import time

import pytest

import atbus
from nodes import Recorded, new_address, until


def test_requests_are_answered(pair):
    one, two = pair
    kept = []

    @two.on_request(type=1)
    def _(request):
        assert (request.source, request.type) == (1, 1)
        return request.data.upper()

    @two.on_request
    def _(request):
        if request.type == 2:
            kept.append(request)
        elif request.type == 3:
            request.fail("why not")
        else:
            raise ValueError("its handler raises")

    def ask(type):
        pending = one.request(2, type, b"shout")
        until([one, two], pending.done)
        return pending

    assert ask(1).result() == b"SHOUT"
    with pytest.raises(atbus.Error) as failed:
        ask(3).result()
    assert failed.value.code == atbus.Code.request_failed
    assert str(failed.value) == "why not"
    later = one.request(2, 2, b"later")
    until([one, two], lambda: kept)
    assert kept[0].is_wanted and not later.done()
    kept[0].reply(b"now")
    assert not kept[0].is_wanted
    with pytest.raises(atbus.Error):
        kept[0].reply(b"again")
    until([one, two], later.done)
    assert later.result() == b"now"
    cancelled = one.request(2, 2, b"")
    assert cancelled.cancel()
    until([one, two], cancelled.done)
    assert cancelled.outcome().code == atbus.Code.cancelled
    pending = one.request(2, 4, b"")
    with pytest.raises(ValueError):
        until([one, two], pending.done)
    until([one, two], pending.done)
    assert pending.outcome().data == b"ValueError: its handler raises"


def test_result_polls_by_itself():
    with atbus.Node(1) as one:
        one.on_request(lambda request: request.data)
        assert one.request(1, 0, b"self").result() == b"self"


def test_handlers_of_requests_can_be_removed(pair):
    one, two = pair
    two.on_request(lambda request: b"of type 1", type=1)
    two.on_request(lambda request: b"of any type")

    def ask():
        pending = one.request(2, 1)
        until([one, two], pending.done)
        return pending.outcome()

    assert ask().data == b"of type 1"
    assert two.on_request(None, type=1) is None
    assert ask().data == b"of any type"
    assert two.on_request(None) is None
    assert ask().code == atbus.Code.unknown_request


def outlast(request):
    """Works until nobody waits for the answer."""
    while request.is_wanted:
        time.sleep(0.01)
    time.sleep(0.05)  # a node's clock may be behind


def test_a_reply_that_comes_too_late_is_dropped(pair):
    one, two = pair
    answered = []

    @two.on_request(type=1)
    def _(request):
        outlast(request)
        return b"late"

    @two.on_request(type=2)
    def _(request):
        outlast(request)
        answered.append(request.reply(b"late"))

    @two.on_request(type=3)
    def _(request):
        outlast(request)
        answered.append(request.fail("late"))

    for type in (1, 2, 3):
        pending = one.request(2, type, timeout=0.05)
        until([one, two], lambda: pending.done() and two.stats["requests"] == type)
        assert pending.outcome().code == atbus.Code.timed_out
    assert answered == [False, False]
    kept = []
    two.on_request(kept.append)
    pending = one.request(2, 4)
    until([one, two], lambda: kept)
    pending.cancel()
    until([one, two], lambda: not kept[0].is_wanted)
    assert not kept[0].reply(b"nobody waits")


def ask_and_read_nothing(one, two, count):
    """Requests that the handler answers; one does not poll meanwhile. Returns what will be their outcomes."""
    asked = [one.request(2, 1, timeout=60) for _ in range(count)]
    while two.stats["requests"] < count:
        one.flush()
        two.poll()
    assert two.stats["would_block"] != 0
    return asked


def test_replies_wait_for_room(pair):
    one, two = pair
    two.on_request(lambda request: bytearray(60_000), type=1)
    asked = ask_and_read_nothing(one, two, 200)
    assert not asked[-1].done()
    until([one, two], lambda: all(one.done() for one in asked))
    assert {pending.result() for pending in asked} == {bytes(60_000)}
    assert two.is_open


@pytest.mark.parametrize(("reads", "deadline"), [(False, 0.01), (True, 60), (True, -1)])
def test_shutdown_waits_until_replies_have_room(pair, reads, deadline):
    one, two = pair
    two.on_request(lambda request: bytes(60_000), type=1)
    asked = ask_and_read_nothing(one, two, 200)
    ended = []

    def shutdown():
        two.adopt()
        ended.append(two.shutdown(deadline))

    thread = threading.Thread(target=shutdown)
    thread.start()
    until([one], lambda: reads is False or ended)
    thread.join()
    assert ended == [reads]
    if reads:
        until([one], lambda: all(one.done() for one in asked))
        assert {pending.result() for pending in asked} == {bytes(60_000)}
    two.adopt()


def test_replies_that_wait_for_a_node_that_reads_nothing_have_a_bound(pair):
    one, two = pair
    calls = []

    @two.on_request(type=1)
    def _(request):
        calls.append(request.type)
        return bytes(60_000)

    asked = ask_and_read_nothing(one, two, 600)
    assert 200 < len(calls) < 500
    with atbus.Node(3) as three:
        three.connect(2, two.addresses[0])
        pending = three.request(2, 1)
        until([three, two], pending.done)
        assert len(pending.result()) == 60_000
    until([one, two], lambda: sum(one.done() for one in asked) >= 200)


def test_a_reply_that_the_other_node_can_not_take_fails():
    with atbus.Node(1, message_limit=1000) as one, atbus.Node(2) as two:
        two.listen(new_address())
        one.connect(2, two.addresses[0])
        two.on_request(lambda request: bytes(2000))
        pending = one.request(2, 1)
        until([one, two], pending.done)
        assert pending.outcome().code == atbus.Code.request_failed
        assert b"too long" in pending.outcome().data or b"limit" in pending.outcome().data
        two.on_request(lambda request: 17)
        pending = one.request(2, 1)
        with pytest.raises(TypeError):
            until([one, two], pending.done)
        until([one, two], pending.done)
        assert b"TypeError" in pending.outcome().data


def test_a_request_that_another_thread_drops_fails(pair):
    one, two = pair
    kept = []
    two.on_request(kept.append)
    pending = one.request(2, 1)
    until([one, two], lambda: kept)
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    until([one, two], pending.done)
    assert pending.outcome().code == atbus.Code.request_failed


def test_commands_are_answered(pair):
    one, two = pair

    @two.on_command
    def _(command):
        if command.words[0] == "add":
            command.reply([str(sum(map(int, command.words[1:])))])
        else:
            command.fail(["no", "such"])

    for words, expected in ((("add", "2", "3"), ["5"]), (("stop",), None)):
        pending = one.command(2, *words)
        until([one, two], pending.done)
        if expected:
            assert pending.result() == expected
        else:
            with pytest.raises(atbus.Error, match="no such"):
                pending.result()


def test_nothing_waits_for_a_result_that_is_there():
    with atbus.Node(1) as node:
        node._bus = Recorded(node._bus)
        node.on_request(lambda request: b"reply")
        assert node.request(1, 7, b"").result() == b"reply"
        assert node._bus.calls[-1] == "poll"
