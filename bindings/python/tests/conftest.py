"""Nodes that tests are given."""

import os

import pytest

import atbus
from nodes import Desk, new_address, until


@pytest.fixture
def pair():
    with atbus.Node(1) as one, atbus.Node(2) as two:
        two.listen(new_address())
        one.connect(2, two.addresses[0])
        events = []
        one.on_endpoint(lambda id, event: events.append((id, event)))
        until([one, two], lambda: events)
        assert events == [(2, atbus.Endpoint.CONNECTED)]
        yield one, two


@pytest.fixture
def memory():
    """The address of a channel in shared memory, which stays when its receiver ends."""
    name = f"atbus-py-{os.getpid()}-memory"
    yield f"shm://{name}"
    for part in ("segment", "bell"):
        if os.path.exists(path := f"/dev/shm/atbus-{part}.{name}"):
            os.unlink(path)


@pytest.fixture
def sim():
    with atbus.Simulation(seed=1) as made:
        yield made


@pytest.fixture
def desk(sim):
    return Desk(sim)
