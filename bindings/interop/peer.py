"""The peer of the interoperation test in Python; interop_test.py says what a peer does."""

import sys

import atbus


def receive(address, token, log):
    with open(log, "a", buffering=1) as lines, atbus.Node(2, token=token) as node:

        @node.on_message
        def _(message):
            if message.data == b"end":
                node.stop()
            else:
                lines.write(message.data.decode() + (" again" if message.redelivered else "") + "\n")

        node.on_request(lambda request: request.data + b"!")
        node.listen(address)
        node.run()
        node.shutdown(1)


def send(address, token, count):
    with atbus.Node(1, token=token) as node:
        node.connect(2, address)
        for i in range(count):
            while not node.try_send(2, 0, str(i)):
                node.poll()
                node.wait(0.01)
            if i % 50 == 0:
                node.poll()
        answers = 0
        while answers < 10:
            try:
                assert node.request(2, 7, "ask", timeout=60).result() == b"ask!"
                answers += 1
            except atbus.Error as error:
                if error.code != atbus.Code.outcome_unknown:
                    raise
        node.send(2, 0, "end")
        assert node.shutdown(30)


if sys.argv[1] == "receive":
    receive(*sys.argv[2:])
else:
    send(sys.argv[2], sys.argv[3], int(sys.argv[4]))
