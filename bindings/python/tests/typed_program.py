"""A program that mypy checks; it is not run."""

import atbus


async def ask(node: atbus.Node) -> bytes:
    reply = await node.request(2, 7, b"key", timeout=0.2)
    return bytes(reply)


def test_ask() -> None:
    with atbus.Simulation(seed=7) as sim:
        sim.node(2, lambda node: node.listen("ipv4://10.0.0.2:7000"), host=2)
        one: atbus.Node = sim.node(1, ping_interval=4)
        reply: bytes = sim.run(ask(one), timeout=20)
        sim.disturb(30, restarts=0)
        sim.set_conditions(delay=(0.001, 0.5))
        sim.cut(1, 2, atbus.SeenBy.ONE)
        print(sim.run_until(lambda: reply) and sim.run_until_idle(), sim.now + sim.seed, sim.nodes[2].id)


def main() -> int:
    with atbus.Node(1, token="secret", ping_interval=4) as node:
        node.connect(2, "shm://echo")

        @node.on_message
        def show(message: atbus.Message) -> None:
            print(message.source + message.type, bytes(message.data))

        @node.on_request
        def answer(request: atbus.Request) -> bytes:
            return request.data if request.is_wanted else b""

        @node.on_request(type=7)
        async def answer_later(request: atbus.Request) -> bytes:
            return request.data

        node.on_request(None, type=7)
        node.on_endpoint(lambda id, event: print(id + 1, event is atbus.Endpoint.CONNECTED))
        node.on_undelivered(lambda what: print(what.reason == atbus.Code.no_route, what.data.hex()))
        node.on_log(None)
        show(node.receive(timeout=None)[0])
        try:
            node.send(2, 0, "text")
        except atbus.WouldBlock as error:
            print(error.code.name)
        except atbus.Error as error:
            return int(error.code)
        return 0 if node.shutdown() else 1
