"""What speed.py measures: how each system carries 64 bytes from one process to another, and back.

A system has four functions. `receive` and `echo` run in a process of their own and call `ready()` once messages may
be sent to them. `send` sends, and returns once all has been handed over to the system; `ask` makes round trips one
after the other, and returns how long each took, in ns. `place` is a name that no other run has.
"""

import asyncio
import ctypes
import importlib.util
import os
import shutil
import subprocess
import time

DATA = b"x" * 64


class AtbusShm:
    name = "atbus, shm://"
    needs = "atbus"

    @staticmethod
    def _address(place):
        return f"shm://atbus-py-{place}"

    @classmethod
    def _connected(cls, place):
        import atbus

        node = atbus.Node(1)
        connected = []
        node.on_endpoint(lambda id, event: connected.append(event))
        node.connect(2, cls._address(place))
        while not connected:
            node.poll()
            node.wait(0.01)
        return node

    @classmethod
    def receive(cls, place, count, ready):
        import atbus

        with atbus.Node(2) as node:
            node.listen(cls._address(place))
            ready()
            got, start = 0, None
            while got < count:
                got += len(node.receive(timeout=1))
                start = start or (got and time.perf_counter())
            took = time.perf_counter() - start
            node.send(1, 0, b"done")
            node.shutdown(1)
        return took

    @classmethod
    def send(cls, place, count):
        with cls._connected(place) as node:
            send = node.try_send
            start = time.perf_counter()
            for _ in range(count):
                while not send(2, 0, DATA):
                    node.poll()
            took = time.perf_counter() - start
            node.shutdown(20)
        return took

    @classmethod
    def echo(cls, place, count, ready):
        import atbus

        with atbus.Node(2) as node:
            node.listen(cls._address(place))
            left = [count]

            def answer(message):
                node.send(1, 0, message.data)
                left[0] -= 1

            node.on_message(answer)
            ready()
            while left[0] > 0:
                node.poll()
            node.shutdown(1)

    @classmethod
    def ask(cls, place, count):
        times, back = [], [0]
        with cls._connected(place) as node:
            node.on_message(lambda m: back.__setitem__(0, back[0] + 1))
            for i in range(count):
                start = time.perf_counter_ns()
                node.send(2, 0, DATA)
                while back[0] == i:
                    node.poll()
                times.append(time.perf_counter_ns() - start)
        return times

    @classmethod
    def clean(cls, place):
        for kind in ("segment", "bell"):
            path = f"/dev/shm/atbus-{kind}.atbus-py-{place}"
            if os.path.exists(path):
                os.unlink(path)


class Pyzmq:
    name = "pyzmq, ipc://"
    needs = "zmq"

    @staticmethod
    def _socket(kind, place, bind):
        import zmq

        socket = zmq.Context.instance().socket(getattr(zmq, kind))
        socket.linger = 20_000
        address = f"ipc:///tmp/atbus-py-{place}"
        socket.bind(address) if bind else socket.connect(address)
        return socket

    @classmethod
    def receive(cls, place, count, ready):
        socket = cls._socket("PULL", place, True)
        ready()
        socket.recv()
        start = time.perf_counter()
        for _ in range(count - 1):
            socket.recv()
        return time.perf_counter() - start

    @classmethod
    def send(cls, place, count):
        socket = cls._socket("PUSH", place, False)
        start = time.perf_counter()
        for _ in range(count):
            socket.send(DATA)
        took = time.perf_counter() - start
        socket.close()
        return took

    @classmethod
    def echo(cls, place, count, ready):
        socket = cls._socket("PAIR", place, True)
        ready()
        for _ in range(count):
            socket.send(socket.recv())
        socket.close()

    @classmethod
    def ask(cls, place, count):
        socket = cls._socket("PAIR", place, False)
        times = []
        for _ in range(count):
            start = time.perf_counter_ns()
            socket.send(DATA)
            socket.recv()
            times.append(time.perf_counter_ns() - start)
        socket.close()
        return times

    @staticmethod
    def clean(place):
        path = f"/tmp/atbus-py-{place}"
        if os.path.exists(path):
            os.unlink(path)


class Nats:
    """nats-py, with a server of its own at a free port."""

    name = "nats-py, TCP"
    needs = "nats"

    _path = os.environ.get("PATH", "") + ":/usr/sbin"
    _servers = {}

    @classmethod
    def is_missing(cls):
        return shutil.which("nats-server", path=cls._path) is None

    @classmethod
    def _url(cls, place):
        return f"nats://127.0.0.1:{20_000 + sum(place.encode()) * 7919 % 20_000}"

    @classmethod
    def begin(cls, place):
        port = cls._url(place).rsplit(":", 1)[1]
        server = shutil.which("nats-server", path=cls._path)
        cls._servers[place] = subprocess.Popen([server, "-a", "127.0.0.1", "-p", port],
                                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5)

    @classmethod
    def clean(cls, place):
        server = cls._servers.pop(place)
        server.terminate()
        server.wait()

    @classmethod
    def receive(cls, place, count, ready):
        import nats

        async def run():
            line = await nats.connect(cls._url(place))
            got, start, done = 0, None, asyncio.Event()

            async def take(message):
                nonlocal got, start
                start = start or time.perf_counter()
                got += 1
                if got == count:
                    done.set()

            # Without a limit, or messages are dropped.
            await line.subscribe("to", cb=take, pending_msgs_limit=0, pending_bytes_limit=0)
            await line.flush()
            ready()
            await done.wait()
            took = time.perf_counter() - start
            await line.close()
            return took

        return asyncio.run(run())

    @classmethod
    def send(cls, place, count):
        import nats

        async def run():
            line = await nats.connect(cls._url(place))
            start = time.perf_counter()
            for _ in range(count):
                await line.publish("to", DATA)
            await line.flush(60)
            took = time.perf_counter() - start
            await line.close()
            return took

        return asyncio.run(run())

    @classmethod
    def echo(cls, place, count, ready):
        import nats

        async def run():
            line = await nats.connect(cls._url(place))
            asked = await line.subscribe("to")
            await line.flush()
            ready()
            for _ in range(count):
                message = await asked.next_msg(timeout=60)
                await line.publish("back", message.data)
            await line.flush()
            await line.close()

        asyncio.run(run())

    @classmethod
    def ask(cls, place, count):
        import nats

        async def run():
            line = await nats.connect(cls._url(place))
            back = await line.subscribe("back")
            await line.flush()
            times = []
            for _ in range(count):
                start = time.perf_counter_ns()
                await line.publish("to", DATA)
                await back.next_msg(timeout=60)
                times.append(time.perf_counter_ns() - start)
            await line.close()
            return times

        return asyncio.run(run())


class Zenoh:
    name = "zenoh, Unix socket"
    needs = "zenoh"

    @staticmethod
    def _session(place, role):
        import zenoh

        config = zenoh.Config()
        config.insert_json5("mode", '"peer"')
        config.insert_json5("scouting/multicast/enabled", "false")
        config.insert_json5(f"{role}/endpoints", f'["unixsock-stream//tmp/atbus-py-{place}"]')
        return zenoh.open(config)

    @staticmethod
    def _publisher(session, key):
        import zenoh

        return session.declare_publisher(key, congestion_control=zenoh.CongestionControl.BLOCK)

    @classmethod
    def receive(cls, place, count, ready):
        with cls._session(place, "listen") as session:
            messages = session.declare_subscriber("to")
            ready()
            messages.recv()
            start = time.perf_counter()
            for _ in range(count - 1):
                messages.recv()
            return time.perf_counter() - start

    @classmethod
    def send(cls, place, count):
        with cls._session(place, "connect") as session:
            publisher = cls._publisher(session, "to")
            time.sleep(1)  # until it has heard of the subscriber
            start = time.perf_counter()
            for _ in range(count):
                publisher.put(DATA)
            took = time.perf_counter() - start
            time.sleep(1)  # what it has taken is on its way
        return took

    @classmethod
    def echo(cls, place, count, ready):
        with cls._session(place, "listen") as session:
            asked, publisher = session.declare_subscriber("to"), cls._publisher(session, "back")
            ready()
            for _ in range(count):
                publisher.put(asked.recv().payload)
            time.sleep(1)

    @classmethod
    def ask(cls, place, count):
        with cls._session(place, "connect") as session:
            back, publisher = session.declare_subscriber("back"), cls._publisher(session, "to")
            time.sleep(1)
            times = []
            for _ in range(count):
                start = time.perf_counter_ns()
                publisher.put(DATA)
                back.recv()
                times.append(time.perf_counter_ns() - start)
            return times

    clean = Pyzmq.clean


class Bytes64(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * 64)]


class Iceoryx2:
    """Both sides poll: its publishers and subscribers have no waiting of their own."""

    name = "iceoryx2, shared memory"
    needs = "iceoryx2"

    @staticmethod
    def _service(place, which):
        import iceoryx2 as iox2

        iox2.set_log_level(iox2.LogLevel.Error)
        node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
        return (node.service_builder(iox2.ServiceName.new(f"atbus-py-{place}-{which}"))
                .publish_subscribe(Bytes64).enable_safe_overflow(False).subscriber_max_buffer_size(1024)
                .max_publishers(1).max_subscribers(1).open_or_create())

    @staticmethod
    def _publisher(service):
        import iceoryx2 as iox2

        return service.publisher_builder().backpressure_strategy(
            iox2.BackpressureStrategy.RetryUntilDelivered).create()

    @classmethod
    def receive(cls, place, count, ready):
        subscriber = cls._service(place, "to").subscriber_builder().create()
        ready()
        got, start, receive = 0, None, subscriber.receive
        while got < count:
            if receive() is not None:
                got += 1
                start = start or time.perf_counter()
        return time.perf_counter() - start

    @classmethod
    def send(cls, place, count):
        publisher, data = cls._publisher(cls._service(place, "to")), Bytes64.from_buffer_copy(DATA)
        send = publisher.send_copy
        time.sleep(1)  # its subscriber has seen it by then: without that what is sent over 1024 may be lost
        start = time.perf_counter()
        for _ in range(count):
            send(data)
        took = time.perf_counter() - start
        time.sleep(1)  # what its subscriber has not taken ends with the publisher
        return took

    @classmethod
    def echo(cls, place, count, ready):
        subscriber = cls._service(place, "to").subscriber_builder().create()
        publisher = cls._publisher(cls._service(place, "back"))
        ready()
        while count > 0:
            message = subscriber.receive()
            if message is not None:
                publisher.send_copy(message.payload().contents)
                count -= 1
        time.sleep(1)

    @classmethod
    def ask(cls, place, count):
        subscriber = cls._service(place, "back").subscriber_builder().create()
        publisher, data = cls._publisher(cls._service(place, "to")), Bytes64.from_buffer_copy(DATA)
        times = []
        for _ in range(count):
            start = time.perf_counter_ns()
            publisher.send_copy(data)
            while subscriber.receive() is None:
                pass
            times.append(time.perf_counter_ns() - start)
        return times

    @staticmethod
    def clean(place):
        pass


ALL = (AtbusShm, Pyzmq, Nats, Zenoh, Iceoryx2)


def missing(system):
    """What is not here, in words; empty if the system can be measured."""
    if importlib.util.find_spec(system.needs) is None:
        return f"the module {system.needs} is not installed"
    if getattr(system, "is_missing", lambda: False)():
        return "nats-server is not installed"
    return ""
