"""The systems that are compared: how each is started, and what it can do.

In addresses {name} is a name that no other run has, {port} and {port2} are free ports and
{directory} is an empty folder of the run."""

import os
import shutil
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclass(frozen=True)
class System:
    name: str
    family: str  # of whose variants it is one
    kind: str  # shm, unix, tcp or process; limits are no rivals
    command: tuple
    address: str
    reply: str = ""
    flags: tuple = ()  # of both sides
    receive_flags: tuple = ("--blocking",)  # at full speed
    server: tuple = ()
    environment: dict = field(default_factory=dict)
    limit: bool = False  # bare means of the kernel: a yardstick
    fan_in: bool = True
    largest: int = 1 << 30
    in_process: bool = False
    extra: bool = False  # a further variant: only in the main rows

    holds_many: bool = False  # its harness can hold many connections
    only_paced: bool = False  # a further variant: only its latency under load is of interest
    asks: bool = False  # a harness of requests and replies, and of nothing else
    has_tasks: bool = False  # one that differs only where a request has tasks
    stores: bool = False  # a cache, which `atbus bench cache` starts and asks

    @property
    def ours(self):
        return self.family == "atbus"

    @property
    def rival(self):
        return not self.ours and not self.limit

    def missing(self):
        """Why it can't be run here; empty if it can."""
        needed = self.command[0]
        jar = next((part for part in self.command if part.endswith(".jar")), None)
        for path in filter(None, (needed, jar, *self.server[:1])):
            if shutil.which(path) is None and not os.path.exists(path):
                return f"{os.path.basename(path)} is not there"
        return ""


def _tcp(ending=""):
    return {"address": "tcp://127.0.0.1:{port}" + ending, "reply": "tcp://127.0.0.1:{port2}" + ending}


def _atbus(programs):
    command = (f"{programs}/compare_atbus",)

    def node(kind, address):
        return System(f"atbus node {kind} claim", "atbus", kind, (f"{programs}/compare_atbus_node",),
                      address, flags=("--claim",), receive_flags=(), extra=True)

    def variant(name, kind, address, *flags, extra=False, reply=None):
        return System(
            f"atbus {name}", "atbus", kind, command, address,
            reply or address.replace("{name}", "{name}-back").replace("{port}", "{port2}"),
            flags=flags, receive_flags=(), extra=extra, in_process=kind == "process",
            fan_in=kind != "process", holds_many=True,
        )

    # As a program does that polls, or flushes, after each message.
    def each(name, kind, program, address, *flags):
        return System(f"atbus {name}", "atbus", kind, (f"{programs}/{program}",), address,
                      flags=(*flags, "--variant", "each"), receive_flags=(), only_paced=True)

    tcp = "ipv4://127.0.0.1:{port}"
    unix = "unix://@{name}?shm=false"
    return [
        variant("shm claim", "shm", "shm://{name}", "--claim"),
        variant("shm send", "shm", "shm://{name}"),
        variant("tcp claim", "tcp", tcp, "--claim"),
        variant("tcp send", "tcp", tcp, extra=True),
        variant("tcp claim, no checksum", "tcp", tcp, "--claim", "--variant", "no_checksum",
                extra=True),
        variant("unix claim", "unix", unix, "--claim"),
        variant("unix send", "unix", unix, extra=True),
        variant("unix, lane claim", "shm", "unix://@{name}", "--claim", extra=True),
        variant("mem claim", "process", "mem://{name}", "--claim", extra=True),
        node("shm", "shm://{name}"),
        node("unix", unix),
        node("tcp", tcp),
        each("tcp, each flushed", "tcp", "compare_atbus", tcp),
        each("unix, each flushed", "unix", "compare_atbus", unix),
        each("node tcp, a poll each, write_delay 5 us", "tcp", "compare_atbus_node", tcp),
    ]


def _zeromq(programs):
    command = (f"{programs}/compare_zeromq",)
    ipc = "ipc://{directory}/z"
    return [
        System("ZeroMQ ipc", "ZeroMQ", "unix", command, ipc, ipc + "-back", holds_many=True),
        System("ZeroMQ tcp", "ZeroMQ", "tcp", command, **_tcp(), holds_many=True),
        System("ZeroMQ inproc", "ZeroMQ", "process", command, "inproc://{name}",
               in_process=True, fan_in=False, extra=True),
    ]


def _aeron(programs):
    # It polls: its way to wait, parking, takes no event. Its compiler needs a moment.
    command = (f"{programs}/compare_aeron", "--warm-up", "1")

    def variant(name, kind, address, reply, *flags, extra=False):
        return System(f"Aeron {name}", "Aeron", kind, command, address, reply, flags=flags,
                      receive_flags=(), extra=extra)

    udp = ("udp:{port}", "udp:{port2}")
    return [
        variant("ipc claim", "shm", "ipc:{name}", "ipc:{name}", "--claim"),
        variant("ipc offer", "shm", "ipc:{name}", "ipc:{name}", extra=True),
        variant("udp claim", "tcp", *udp, "--claim"),
    ]


def _iceoryx2(programs):
    command = (f"{programs}/compare_iceoryx2",)

    def variant(name, *flags, extra=False):
        return System(f"iceoryx2 {name}", "iceoryx2", "shm", command, "{name}", "{name}-back",
                      flags=flags, receive_flags=(), extra=extra)

    return [variant("loan", "--claim"), variant("copy", extra=True)]


def _zenoh(programs):
    command = (f"{programs}/compare_zenoh",)

    def variant(name, kind, address, **more):
        # Both directions of a round trip share a link.
        return System(f"zenoh {name}", "zenoh", kind, command, address, "back", holds_many=True, **more)

    unix = "unixsock-stream/{directory}/z"
    return [
        variant("unix", "unix", unix),
        variant("tcp", "tcp", "tcp/127.0.0.1:{port}"),
        variant("shm", "shm", unix, flags=("--variant", "shm"), extra=True),
    ]


def _nng(programs):
    command = (f"{programs}/compare_nng",)
    ipc = "ipc://{directory}/n"
    return [
        System("nng ipc", "nng", "unix", command, ipc, ipc + "-back", holds_many=True),
        System("nng tcp", "nng", "tcp", command, **_tcp(), holds_many=True),
    ]


def _nats(programs):
    server = shutil.which("nats-server") or "/usr/sbin/nats-server"
    return [
        System("NATS core", "NATS", "tcp", (f"{programs}/compare_nats",),
               "nats://127.0.0.1:{port}", "back", holds_many=True,
               server=(server, "-a", "127.0.0.1", "-p", "{port}", "-c", f"{HERE}/systems/nats.conf")),
    ]


def _boost(programs):
    return [
        System("boost mq", "boost::interprocess", "shm", (f"{programs}/compare_boost_mq",),
               "{name}", "{name}-back", receive_flags=()),
    ]


def _cyclonedds(programs):
    command = (f"{programs}/compare_cyclonedds",)

    def variant(name, kind, settings, **more):
        return System(f"Cyclone DDS {name}", "Cyclone DDS", kind, command, "{name}", "{name}-back",
                      environment={"CYCLONEDDS_URI": f"file://{HERE}/systems/{settings}"}, **more)

    roudi = shutil.which("iox-roudi") or "/usr/bin/iox-roudi"
    return [
        variant("udp", "tcp", "cyclonedds.xml"),
        # The daemon's memory has no larger pieces.
        variant("shm", "shm", "cyclonedds_shm.xml", server=(roudi,), largest=1 << 16),
    ]


def _limits(programs):
    def limit(name, kind, address, reply):
        return System(name, "limit", kind, (f"{programs}/compare_bare",), address, reply,
                      receive_flags=(), limit=True, fan_in=False)

    return [
        limit("bare Unix socket", "unix", "unix:{name}", "unix:{name}-back"),
        limit("bare TCP", "tcp", "tcp:{port}", "tcp:{port2}"),
        limit("bare pipe", "unix", "pipe:{directory}/p", "pipe:{directory}/q"),
    ]


def _requests(programs):
    # The service of NATS is behind its server. Java's compiler needs a moment.
    def system(family, name, kind, program, address, flags=(), **more):
        return System(name, family, kind, (f"{programs}/compare_{program}",), address,
                      flags=flags, asks=True, **more)

    nats = shutil.which("nats-server") or "/usr/sbin/nats-server"
    plain = "127.0.0.1:{port}"
    return [
        system("atbus", "atbus request shm", "shm", "atbus_request", "shm://{name}"),
        system("atbus", "atbus request unix", "unix", "atbus_request", "unix://@{name}?shm=false"),
        system("atbus", "atbus request tcp", "tcp", "atbus_request", "ipv4://127.0.0.1:{port}"),
        system("atbus", "atbus coroutines tcp", "tcp", "atbus_request", "ipv4://127.0.0.1:{port}",
               ("--variant", "tasks"), has_tasks=True),
        system("gRPC", "gRPC async", "tcp", "grpc_request", plain),
        system("NATS", "NATS request", "tcp", "nats_request", f"nats://{plain}",
               server=(nats, "-a", "127.0.0.1", "-p", "{port}", "-c", f"{HERE}/systems/nats.conf")),
        system("ZeroMQ", "ZeroMQ router tcp", "tcp", "zeromq_request", f"tcp://{plain}"),
        system("ZeroMQ", "ZeroMQ router ipc", "unix", "zeromq_request", "ipc://{directory}/z"),
        system("Vert.x", "Vert.x", "tcp", "vertx", plain, ("--warm-up", "1")),
    ]


def _caches(programs):
    def system(family, over):
        is_ours = family == "atbus"
        return System(f"atbus cache {over}" if is_ours else f"{family} {over}", family, over,
                      (f"{programs}/atbus", "bench", "cache", "--system", family.lower(),
                       "--over", over), "", stores=True,
                      server=() if is_ours else (f"{family.lower()}{'-server' * (family == 'Redis')}",))

    return [system(family, over)
            for family, ways in (("atbus", ("shm", "unix", "tcp")), ("memcached", ("unix", "tcp")),
                                 ("Redis", ("unix", "tcp")))
            for over in ways]


def all_systems(programs):
    """Every system of the comparison; `programs` is where the harnesses are."""
    return [*_atbus(programs), *_zeromq(programs), *_nng(programs), *_nats(programs),
            *_boost(programs), *_cyclonedds(programs), *_aeron(programs), *_iceoryx2(programs),
            *_zenoh(programs), *_limits(programs), *_requests(programs), *_caches(programs)]
