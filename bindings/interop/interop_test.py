"""Every language to every other, over each kind of channel, with a kill -9 of the receiver in between.

A peer is a program: `PEER receive ADDRESS TOKEN LOG` is node 2, which appends the text of each message to LOG, a line
each, with " again" if it is marked as redelivered, and answers each request with its bytes and "!". At the message "end"
it ends. `PEER send ADDRESS TOKEN COUNT` is node 1: it sends the numbers from 0 as texts, makes ten requests, and sends
"end"; a request whose outcome is unknown, because it was under way at the kill, it makes again. INTEROP_PEERS names the peers: lines of a language and a command.
"""

import itertools
import os
import shlex
import shutil
import socket
import subprocess
import time

import pytest

PEERS = dict(line.split(" ", 1) for line in os.environ["INTEROP_PEERS"].strip().splitlines())
TOKEN = "the token of the interoperation test"
COUNT = 4000
KINDS = ("shm", "unix", "tcp")  # TCP is encrypted, because there is a token

_count = itertools.count()


def new_address(kind):
    name = f"atbus-interop-{os.getpid()}-{next(_count)}"
    if kind == "tcp":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return f"ipv4://127.0.0.1:{free.getsockname()[1]}"
    return f"shm://{name}" if kind == "shm" else f"unix://@{name}"


def wait_until(done, what):
    limit = time.monotonic() + 60
    while not done():
        assert time.monotonic() < limit, what
        time.sleep(0.005)


def test_each_language_that_is_here_takes_part():
    def is_here(lua):  # for test_lua.sh
        return shutil.which(lua) and subprocess.run(["pkg-config", "--exists", lua]).returncode == 0

    here = {"C", "Python", *filter(is_here, ("lua5.4", "luajit"))}
    assert set(PEERS) == here | ({"Go"} if os.environ["INTEROP_GO"] == "yes" else set())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("receiver", PEERS)
@pytest.mark.parametrize("sender", PEERS)
def test_nothing_is_lost(sender, receiver, kind, tmp_path):
    address, log = new_address(kind), tmp_path / "log"

    def lines():
        return log.read_text().splitlines() if log.exists() else []

    def start(language, *arguments):
        return subprocess.Popen([*shlex.split(PEERS[language]), *arguments])

    receiving = start(receiver, "receive", address, TOKEN, str(log))
    sending = start(sender, "send", address, TOKEN, str(COUNT))
    try:
        wait_until(lambda: len(lines()) > COUNT // 4, "the first messages come")
        receiving.kill()
        receiving.wait()
        receiving = start(receiver, "receive", address, TOKEN, str(log))
        assert sending.wait(60) == 0
        # The one that was killed may have had the "end" already.
        assert receiving.poll() in (None, 0)
    finally:
        for process in (receiving, sending):
            process.kill()
            process.wait()
        for part in ("segment", "bell"):
            path = f"/dev/shm/atbus-{part}.{address.split('//')[1]}"
            if os.path.exists(path):
                os.unlink(path)
    # The line that was cut by the kill may have no end; its message comes again, marked.
    handled = [int(line.split()[0]) for line in lines() if line.split()[0].isdigit()]
    assert sorted(set(handled)) == list(range(COUNT))
    unmarked = [line for line in lines() if not line.endswith("again")]
    assert len(unmarked) == len(set(unmarked))
