"""Measures the module beside pyzmq: one sender process, one receiver process, 64 bytes.

usage: speed.py [--messages N] [--rounds N]

Rows: messages sent one by one and received in batches (atbus: shared memory; pyzmq: ipc), and polled round trips.
"""

import argparse
import multiprocessing
import os
import statistics
import time

import atbus

try:
    import zmq
except ImportError:
    zmq = None

DATA = b"x" * 64


def _remove(address):
    name = address[len("shm://") :]
    for kind in ("segment", "bell"):
        os.unlink(f"/dev/shm/atbus-{kind}.{name}")


def _atbus_receiver(name, count, queue):
    with atbus.Node(2) as node:
        node.listen(name)
        got, start = 0, None
        while got < count:
            got += len(node.receive(timeout=1))
            start = start or (got and time.perf_counter())
        queue.put(time.perf_counter() - start)
        node.send(1, 0, b"done")
        node.shutdown(1)


def atbus_throughput(count):
    name = f"shm://atbus-py-speed-{os.getpid()}"
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=_atbus_receiver, args=(name, count, queue))
    process.start()
    with atbus.Node(1) as node:
        connected = []
        node.on_endpoint(lambda id, event: connected.append(event))
        node.connect(2, name)
        while not connected:
            node.poll()
            node.wait(0.01)
        send, start = node.try_send, time.perf_counter()
        for _ in range(count):
            while not send(2, 0, DATA):
                node.poll()
        sent = time.perf_counter() - start
        node.poll()
        received = queue.get()
    process.join()
    _remove(name)
    return count / sent, count / received


def _zmq_receiver(address, count, queue):
    socket = zmq.Context().socket(zmq.PULL)
    socket.bind(address)
    socket.recv()
    start = time.perf_counter()
    for _ in range(count - 1):
        socket.recv()
    queue.put(time.perf_counter() - start)


def zmq_throughput(count):
    address = f"ipc:///tmp/atbus-py-speed-{os.getpid()}"
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=_zmq_receiver, args=(address, count, queue))
    process.start()
    socket = zmq.Context().socket(zmq.PUSH)
    socket.connect(address)
    time.sleep(0.3)
    start = time.perf_counter()
    for _ in range(count):
        socket.send(DATA)
    sent = time.perf_counter() - start
    received = queue.get()
    process.join()
    socket.close(0)
    os.unlink(address[len("ipc://") :])
    return count / sent, count / received


def _atbus_echo(name):
    with atbus.Node(2) as node:
        node.listen(name)
        running = [True]

        def echo(message):
            if message.data == b"end":
                running[0] = False
            node.send(1, 0, message.data)

        node.on_message(echo)
        while running[0]:
            node.poll()
        node.shutdown(1)


def atbus_round_trip(count):
    name = f"shm://atbus-py-echo-{os.getpid()}"
    process = multiprocessing.Process(target=_atbus_echo, args=(name,))
    process.start()
    times, back = [], [0]
    with atbus.Node(1) as node:
        node.on_message(lambda m: back.__setitem__(0, back[0] + 1))
        node.connect(2, name)
        for i in range(count):
            start = time.perf_counter_ns()
            node.send(2, 0, DATA if i < count - 1 else b"end")
            while back[0] == i:
                node.poll()
            times.append(time.perf_counter_ns() - start)
    process.join()
    _remove(name)
    return statistics.median(times) / 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    wanted = parser.parse_args()
    kinds = {"atbus": atbus_throughput}
    if zmq is not None:
        kinds["pyzmq"] = zmq_throughput
    results = {name: [] for name in kinds}
    trips = []
    for _ in range(wanted.rounds):
        for name, measure in kinds.items():
            results[name].append(measure(wanted.messages))
        trips.append(atbus_round_trip(20_000))
    for name, all in results.items():
        for what, i in (("sent", 0), ("received", 1)):
            values = sorted(one[i] / 1e6 for one in all)
            print(f"{name:6} {what:9} {statistics.median(values):6.2f} M/s  ({values[0]:.2f} to {values[-1]:.2f})")
    trips.sort()
    print(f"atbus  round trip, polled {statistics.median(trips):6.2f} us  ({trips[0]:.2f} to {trips[-1]:.2f})")


if __name__ == "__main__":
    main()
