"""What tests of nodes share."""

import itertools
import os
import time

THERE = "ipv4://10.0.0.2:7000"  # where node 2 of a Desk listens

_count = itertools.count()


def new_address():
    return f"unix://@atbus-py-{os.getpid()}-{next(_count)}"


def until(nodes, done, longest=20):
    limit = time.monotonic() + longest
    while not done():
        assert time.monotonic() < limit, "it has not happened"
        for node in nodes:
            node.poll()
        nodes[0].wait(0.001)


class Desk:
    """Node 2, which keeps what all its incarnations are told, and node 1, which is connected to it."""

    def __init__(self, sim, **options):
        self.sim = sim
        self.got = []
        self.begun = 0
        self.two = sim.node(2, self.start, host=2, **options)
        self.one = sim.node(1, self.start_customer, **options)

    def start(self, node):
        self.begun += 1
        node.listen(THERE)
        node.on_message(lambda m: self.got.append(m.data))

    @staticmethod
    def start_customer(node):
        node.connect(2, THERE)


class Recorded:
    """What polls and waits, in order."""

    def __init__(self, bus):
        self._bus = bus
        self.calls = []

    def __getattr__(self, name):
        if name in ("poll", "wait"):
            self.calls.append(name)
        return getattr(self._bus, name)
