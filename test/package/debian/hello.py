"""What a user's first program does, in one process."""

import atbus

with atbus.Node(1) as node:

    @node.on_message
    def _(message):
        print("Python:", message.data.decode())
        node.stop()

    node.send(1, 0, "hello")
    node.run()
