"""A server in the place of a relay, with answers that no few processes can make."""

import http.server
import json
import pathlib
import threading
import time

PAGE = pathlib.Path(__file__).parents[2] / "src/http/page/status.html"
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'"


class StandIn:
    def __init__(self, answer):
        self.answer = answer  # what status.json is, or bytes
        self.status = 200
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.serve(self)

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def serve(self, request):
        is_page = request.path == "/"
        body = PAGE.read_bytes() if is_page else self.status_bytes()
        request.send_response(200 if is_page else self.status)
        request.send_header("Content-Type", "text/html; charset=utf-8" if is_page else "application/json")
        request.send_header("Content-Security-Policy", POLICY)
        request.end_headers()
        request.wfile.write(body)

    def status_bytes(self):
        return self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def peer(number, relation="child", **changes):
    return {
        "id": str(number), "incarnation": 1, "relation": relation, "channel": "tcp", "away": False, "encrypted": True,
        "wanted": False, "address": "ipv6://[::1]:5000", "sent": 0, "sent_bytes": 0, "received": 0,
        "received_bytes": 0, "would_block": 0, "undelivered": 0, "queued_messages": 0, "queued_bytes": 0,
        "queued_bytes_most": 0, "links": 1, "links_lost": 0, "last_loss": None, "last_loss_at": 0, "round_trip": 0,
        "round_trips": {"total": 0, "p50": 0, "p99": 0, "p999": 0}, **changes,
    }  # fmt: skip


def node(number, parent=None, peers=(), **changes):
    now = time.time_ns()
    return {
        "path": f"/dev/shm/atbus-node.{number:#x}-0x1", "alive": True, "life": "live", "id": str(number),
        "incarnation": 1, "parent": None if parent is None else str(parent), "pid": 1, "program": "node",
        "version": "0.1.0", "started_at": now, "updated_at": now, "addresses": [], "message_limit": 65536,
        "peers_in_all": len(peers), "connected": len(peers), "queued_bytes": 0,
        "handling": {"total": 0, "p50": 0, "p99": 0, "p999": 0}, "stats": {"accepted": 0}, "peers": list(peers),
        **changes,
    }  # fmt: skip


def answer(*nodes):
    return {"at": time.time_ns(), "self": nodes[0]["id"], "nodes": list(nodes)}
