"""Real processes for the tests of the status page: a relay that serves the page, and nodes below it."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request

from waiting import until

ATBUS = os.environ["PAGE_ATBUS"]
NODE = os.environ["PAGE_NODE"]
RELAY_ID = 0x10000


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Bus:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="page-"))
        self.relay_address = f"unix://{self.folder}/relay"
        self.url = f"http://127.0.0.1:{free_port()}/"
        self.processes = []
        self.log = open(self.folder / "log", "w")
        self.start_relay()

    def start(self, *words, name=None):
        """`name`: what the process believes to be called."""
        words = [str(word) for word in words]
        process = subprocess.Popen(
            [name or words[0], *words[1:]], executable=words[0], stdout=self.log, stderr=self.log
        )
        self.processes.append(process)
        return process

    def start_relay(self):
        config = self.folder / "relay.toml"
        config.write_text(
            f'id = "{RELAY_ID:#x}"\nchildren = "{RELAY_ID:#x}/48"\nlisten = "{self.relay_address}"\n'
            f'report_directory = "{self.folder}"\nallow_unauthenticated = true\n'
            f'[http]\nlisten = "{self.url.removeprefix("http://").rstrip("/")}"\n'
        )
        self.relay = self.start(ATBUS, "relay", "--config", config)
        until(self.answers, "the relay serves the page", seconds=20)

    def answers(self):
        try:
            with urllib.request.urlopen(self.url, timeout=1) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def start_node(self, number, name="node", *, parent=None, children="-", listen=None, reports=True, traffic=()):
        """`traffic`: the id of the receiver, messages a second, bytes of each."""
        return self.start(
            NODE, f"{number:#x}", self.folder if reports else "-", parent or self.relay_address, children,
            listen or self.address_of(number), *traffic, name=name,
        )  # fmt: skip

    def address_of(self, number):
        return f"unix://{self.folder}/{number:x}"

    def kill(self, process):
        process.kill()
        process.wait()

    def stop(self, process):
        process.send_signal(signal.SIGSTOP)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.log.close()
        shutil.rmtree(self.folder)
