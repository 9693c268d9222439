"""The bus for Python: processes send each other messages by 64-bit id.

import atbus

with atbus.Node(1) as node:
    node.connect(2, "shm://echo")
    node.on_message(lambda m: (print(bytes(m.data)), node.stop()))
    node.send(2, 0, b"hello")
    node.run()
"""

from ._node import (
    Command,
    Endpoint,
    Message,
    Node,
    Overflow,
    Restart,
    ThreadSender,
    Undelivered,
    version,
)
from ._errors import Closed, Code, Error, TimedOut, WouldBlock
from ._pending import Pending, Response
from ._request import Request
from ._simulation import SeenBy, Simulation

__version__ = version()
__all__ = [
    "Closed",
    "Code",
    "Command",
    "Endpoint",
    "Error",
    "Message",
    "Node",
    "Overflow",
    "Pending",
    "Request",
    "Response",
    "Restart",
    "SeenBy",
    "Simulation",
    "ThreadSender",
    "TimedOut",
    "Undelivered",
    "WouldBlock",
    "version",
]
