"""Nodes in Python, over real sockets and shared memory."""

import gc
import threading
import time
import weakref

import pytest

import atbus
from nodes import new_address, until


def test_messages_have_their_bytes_and_types(pair):
    one, two = pair
    got = []
    two.on_message(got.append)
    one.send(2, 7, b"bytes")
    one.send(2, 8, "text \u00e4")
    one.send(2, 9, memoryview(bytearray(b"xview"))[1:])
    one.send(2, 10, b"")
    one.send_required(2, 11, b"required")
    one.broadcast(12, b"all")
    until([one, two], lambda: len(got) == 6)
    assert [(m.source, m.type, m.data) for m in got] == [
        (1, 7, b"bytes"),
        (1, 8, "text \u00e4".encode()),
        (1, 9, b"view"),
        (1, 10, b""),
        (1, 11, b"required"),
        (1, 12, b"all"),
    ]
    assert not got[0].redelivered
    assert one.stats["accepted"] >= 5


def test_batches_are_views_that_stay_valid(pair):
    one, two = pair
    sent = [str(i).encode() * (i % 50) for i in range(3000)]
    got = []
    for data in sent:
        while not one.try_send(2, 1, data):
            one.poll()
            got += two.receive()

    def receive():
        got.extend(two.receive(100))
        return len(got) == len(sent)

    until([one], receive)
    assert [bytes(m.data) for m in got] == sent
    assert isinstance(got[0].data, memoryview)
    numpy = pytest.importorskip("numpy")
    assert bytes(numpy.frombuffer(got[7].data, dtype="u1")) == sent[7]


def test_receive_waits(pair):
    one, two = pair
    assert two.receive(timeout=0.01) == []
    one.send(2, 0, b"text")
    one.flush()
    got = []
    until([one], lambda: got.extend(two.receive(timeout=0.1)) or got)
    assert bytes(got[0].data) == b"text"


@pytest.mark.parametrize("timeout", [None, 20])
def test_receive_waits_for_a_message_and_not_for_something_else(timeout):
    address = new_address()

    def send():
        with atbus.Node(1) as one:
            connected = []
            one.on_endpoint(lambda *event: connected.append(event))
            one.connect(2, address)
            until([one], lambda: connected)
            one.request(2, 1, b"a request is no message").result()
            one.send(2, 0, b"text")
            one.shutdown()

    with atbus.Node(2) as two:
        two.listen(address)
        two.on_request(lambda request: b"reply")
        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        got = two.receive(timeout=timeout)
        assert [bytes(m.data) for m in got] == [b"text"]
        while thread.is_alive():
            two.poll()


def test_receive_ends_when_its_time_is_over(pair):
    _, two = pair
    start = time.monotonic()
    assert two.receive(timeout=0.25) == []
    assert 0.25 <= time.monotonic() - start < 5


def test_what_is_not_delivered_is_told(pair):
    one, two = pair
    told = []
    one.on_undelivered(told.append)
    one.set_policy(3, deadline=0.01)
    one.connect(3, new_address())
    one.send(3, 5, b"late")
    until([one, two], lambda: told)
    assert told[0].destination == 3 and told[0].type == 5 and told[0].data == b"late"
    assert told[0].outcome == atbus.Code.not_delivered and told[0].reason == atbus.Code.timed_out


def test_a_full_queue_is_would_block_until_there_is_room():
    with atbus.Node(1, send_buffer_size=1) as one, atbus.Node(2) as two:
        one.connect(2, address := new_address())
        writable = []
        one.on_writable(writable.append)
        with pytest.raises(atbus.WouldBlock):
            for _ in range(100_000):
                one.send(2, 0, b"x" * 1000)
        assert not one.try_send(2, 0, b"x" * 1000)
        two.listen(address)
        until([one, two], lambda: writable)
        assert writable == [2]


def test_errors_say_what_to_do():
    for options, text in (
        ({"tokens": "x"}, "there is no option tokens"),
        ({"token": "short"}, "16"),
        ({"children": "no range"}, "range"),
        ({"message_limit": "many"}, "message_limit"),
        ({"ping_interval": -1.0}, "ping_interval"),
        ({"ping_interval": float("nan")}, "not a number"),
    ):
        with pytest.raises(atbus.Error, match=text) as failed:
            atbus.Node(1, **options)
        assert failed.value.code == atbus.Code.invalid_argument
    with atbus.Node(
        1, token=["the first token of this test", "another one of this test"], overflow=atbus.Overflow.DROP_OLDEST
    ):
        pass
    with atbus.Node(1) as node:
        with pytest.raises(atbus.Error) as failed:
            node.send(3, 0, b"")
        assert failed.value.code == atbus.Code.no_route
        with pytest.raises(TypeError):
            node.send(1, 0, 17)
        with pytest.raises(TypeError):
            node.send("one", 0, b"")
        with pytest.raises(atbus.Error):
            node.listen("nowhere://x")


def test_zero_is_none_and_not_the_default():
    with atbus.Node(1, clients=0, drain=0, strangers_bytes=0) as one, atbus.Node(0) as client:
        one.listen(new_address())
        client.connect(0, one.addresses[0])
        events = []
        client.on_endpoint(lambda id, event: events.append(event))
        until([one, client], lambda: atbus.Endpoint.REFUSED in events)


def test_a_handler_that_raises_raises_from_poll():
    with atbus.Node(1) as node:
        seen = []

        @node.on_message
        def _(message):
            seen.append(message.data)
            if message.data == b"1":
                raise KeyError("of the handler")

        for i in range(3):
            node.send(1, 0, str(i))
        with pytest.raises(KeyError):
            while len(seen) < 3:
                node.poll()
        until([node], lambda: len(seen) == 3)


def test_a_handler_that_raises_loses_no_batch():
    with atbus.Node(1) as node:
        node.receive()

        @node.on_request
        def _(request):
            raise KeyError("of the handler")

        node.request(1, 0)
        for i in range(3):
            node.send(1, 0, str(i))
        got, raised = [], []
        while len(got) < 3 or not raised:
            try:
                got += [bytes(m.data) for m in node.receive()]
            except KeyError as error:
                raised.append(error)
        assert got == [b"0", b"1", b"2"]


class _Drops:
    """In a cycle, so that the collector finds it: before Python 3.12 in the midst of what takes memory."""

    def __init__(self, drop):
        self._drop = drop
        self._itself = self

    def __del__(self):
        self._drop()


def test_a_finalizer_may_receive_while_messages_are_received():
    with atbus.Node(1) as node:
        mine = [b"mine %d" % i for i in range(900)]  # more than the collector waits for
        got, of_finalizer = [], []

        def drop():
            for _ in mine:
                node.send(1, 2, b"of the finalizer")
            of_finalizer.extend(node.receive(1000))

        for data in mine:
            node.send(1, 1, data)
        gc.collect()
        dropped = _Drops(drop)
        del dropped
        while len(got) < len(mine):
            got += node.receive(1000)
        gc.collect()
        assert [(m.type, m.data) for m in got] == [(1, data) for data in mine]
        assert [(m.type, m.data) for m in of_finalizer] == [(2, b"of the finalizer")] * len(mine)


def test_a_handler_may_remove_itself():
    with atbus.Node(1) as node:
        got = []

        def only_once(message):
            got.append(message.data)
            node.on_message(None)

        node.on_message(only_once)
        for i in range(10):
            node.send(1, 0, str(i))
        for _ in range(5):
            node.poll()
        assert got == [b"0"]


def test_texts_of_others_need_not_be_utf8(pair):
    one, two = pair
    two.on_command(lambda c: c.reply(c.words))
    pending = one.command(2, "caf\u00e9")
    until([one, two], pending.done)
    assert pending.result() == ["caf\u00e9"]


def test_nothing_works_once_it_is_closed():
    node = atbus.Node(1)
    node.on_request(lambda r: b"")
    pending = node.request(1, 0, b"")
    node.close()
    node.close()
    assert not node.is_open
    assert pending.done() and pending.outcome().code == atbus.Code.closed
    for call in (
        lambda: node.send(1, 0, b""),
        lambda: node.poll(),
        lambda: node.receive(),
        lambda: node.wait(0),
        lambda: node.listen(new_address()),
        lambda: node.on_message(print),
    ):
        with pytest.raises(atbus.Closed):
            call()


def test_shutdown_says_whether_all_has_an_outcome():
    with atbus.Node(1) as node:
        node.send(1, 0, b"")
        assert node.shutdown() is True
        assert not node.is_open
    with atbus.Node(1) as node:
        node.connect(2, new_address())
        node.send_required(2, 0, b"no node 2 is there")
        assert node.shutdown(0.01) is False
        assert not node.is_open


def test_shutdown_raises_what_is_not_a_matter_of_time():
    node = atbus.Node(1)
    node.close()
    with pytest.raises(atbus.Closed):
        node.shutdown()
    node = atbus.Node(1)
    node.on_message(lambda message: node.shutdown())
    node.send(1, 0, b"")
    with pytest.raises(atbus.Error) as refused:
        until([node], lambda: False)
    assert refused.value.code == atbus.Code.invalid_argument
    node.close()


class Handler:
    """Refers to its node, which refers to it."""

    def __init__(self, node):
        self.node = node

    def __call__(self, _):
        pass


@pytest.mark.parametrize("end", ["close", "shutdown"])
def test_a_node_that_ends_forgets_its_handlers_also_when_one_raises(end):
    node = atbus.Node(1)
    handler = Handler(node)
    seen = weakref.ref(handler)
    node.on_message(handler)
    node.on_request(lambda request: None)

    def raises(_):
        raise KeyError("of the handler")

    node.request(1, 0, timeout=0.1 if end == "shutdown" else 5.0).add_done_callback(raises)
    del handler
    with pytest.raises(KeyError):
        getattr(node, end)()
    assert not node.is_open
    gc.collect()
    assert seen() is None


def test_it_may_be_closed_by_its_handlers():
    node = atbus.Node(1)
    node.on_message(lambda m: node.close())
    node.send(1, 0, b"")
    while node.is_open:
        node.poll()


def test_a_million_messages_leave_nothing_behind():
    with atbus.Node(1) as node:
        node.on_message(lambda m: None)

        def send(count):
            for _ in range(count):
                node.send(1, 0, b"x" * 100)
                node.poll()

        def memory():
            gc.collect()
            with open("/proc/self/statm") as statm:
                return int(statm.read().split()[1]) * 4096

        send(10_000)
        before = memory()
        send(200_000)
        assert memory() - before < 2 << 20


def test_texts_with_a_zero_byte_are_refused_and_not_cut():
    cut = "sixteen bytes...\0and more"
    for options in ({"token": cut}, {"access": cut}, {"parent": ["unix://@x", cut]}):
        with pytest.raises(atbus.Error, match="zero byte"):
            atbus.Node(1, **options)
    with atbus.Node(1, token="sixteen bytes...") as node:
        for call in (
            lambda: node.listen(new_address() + "\0more"),
            lambda: node.connect(2, new_address() + "\0more"),
            lambda: node.set_tokens([cut]),
            lambda: node.command(1, "order", "one\0two"),
        ):
            with pytest.raises(atbus.Error, match="zero byte"):
                call()


def test_the_largest_number_of_32_bits_is_a_number():
    with atbus.Node(1, clients=2**32 - 1) as one, atbus.Node(0) as client:
        one.listen(new_address())
        client.connect(0, one.addresses[0])
        events = []
        client.on_endpoint(lambda id, event: events.append(event))
        until([one, client], lambda: events)
        assert events == [atbus.Endpoint.CONNECTED]


def test_a_node_that_is_closed_keeps_no_handler():
    node = atbus.Node(1)
    node.close()

    def handler(_):
        pass

    for set_handler in (
        node._bus.on_message,
        node._bus.on_any_request,
        node._bus.on_command,
        node._bus.on_undelivered,
        node._bus.on_endpoint,
        node._bus.on_writable,
        node._bus.on_log,
        lambda handler: node._bus.on_request(1, handler),
    ):
        with pytest.raises(atbus.Closed):
            set_handler(handler)
    is_held = weakref.ref(handler)
    del handler
    assert is_held() is None
