"""One run of one system: starts its processes, waits for them, returns their figures."""

import glob
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress

from compare import arithmetic
from compare.processes import Child, MemoryGroup, RunFailed, cores, cpu_s, memory_kib, without_folders

START_S = 20  # for a process to be ready; a virtual machine of Java on a busy host takes a few
AFTER_S = 15  # for what is queued to arrive after the senders have ended

_numbers = itertools.count()


class Site:
    """Names, ports, a folder and, where the system needs one, a server: those of one run."""

    def __init__(self, system, stack):
        number = next(_numbers)
        self.system = system
        # Below the ports that the kernel gives out by itself.
        port = 10000 + (os.getpid() * 64 + number * 3) % 22000
        directory = tempfile.mkdtemp(prefix="atbus-compare-")
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        stack.callback(_remove_shared_memory, f"-{os.getpid()}-{number}")
        self._words = {
            "name": f"atbus-compare-{os.getpid()}-{number}",
            "port": port,
            "port2": port + 1,
            "port3": port + 2,
            "directory": directory,
        }
        self._stack = stack
        self.environment = {key: self._fill(text) for key, text in system.environment.items()}
        self.server = None
        if system.server:
            self.server = self._start([self._fill(word) for word in system.server], None)
            time.sleep(0.3)
            if self.server.code is not None:
                raise RunFailed("server: " + self.server.why())

    def _fill(self, text):
        for word, value in self._words.items():
            text = text.replace("{" + word + "}", str(value))
        return text

    def _start(self, command, on_cores, waits_for_go=False, memory=None):
        child = Child(command, on_cores, self.environment, waits_for_go, memory)
        self._stack.callback(child.close)
        return child

    def start(self, role, arguments, on_cores, waits_for_go=False, memory=None):
        system = self.system
        command = [self._fill(word) for word in system.command]
        command += ["--role", role, "--address", self._fill(system.address)]
        if system.reply:
            command += ["--reply-address", self._fill(system.reply)]
        return self._start(command + list(system.flags) + [str(word) for word in arguments],
                           on_cores, waits_for_go, memory)

    def server_usage(self):
        """CPU seconds and peak memory of the server, which ends."""
        if not self.server:
            return 0.0, 0
        self.server.send_signal(signal.SIGTERM)
        if not self.server.wait_end(time.monotonic() + 3):
            self.server.close()
        self.server.wait_end(time.monotonic() + 3)
        usage = self.server.usage
        return (usage.ru_utime + usage.ru_stime if usage else 0.0, self.server.peak_kib)


def _remove_shared_memory(ending):
    """What processes that were killed have left there. No other run has this number now."""
    for path in glob.glob(f"/dev/shm/*atbus-compare{ending}*"):
        with suppress(OSError):
            os.remove(path)


def sizes(low, high):
    return ["--bytes-min", low, "--bytes-max", high]


def _summary(receive, sends, started_ns, site):
    """The figures of a run of one receiver and its senders."""
    server_s, server_kib = site.server_usage()
    cpu_s = receive["cpu_s"] + sum(s.get("cpu_s", 0) for s in sends if s) + server_s
    if site.system.in_process:
        cpu_s = receive["cpu_s"]
    first_ns = receive.get("first_message_ns") or 0
    return {
        "rate": arithmetic.steady_rate(receive["slices"]),
        "bytes_rate": arithmetic.steady_rate(receive["slice_bytes"]),
        "start_s": (first_ns - started_ns) / 1e9 - receive.get("warm_up_s", 0)
        if first_ns else None,
        "cpu_s_per_million": arithmetic.per_million(cpu_s, receive["messages"]),
        "peak_receive_kib": receive["peak_kib"],
        "peak_send_kib": max((s["peak_kib"] for s in sends if s), default=0),
        "peak_server_kib": server_kib,
        **arithmetic.account(receive, sends),
        "receive": receive,
        "send": sends,
    }


def stream(system, message_sizes, seconds, senders=1, common=(), receive_arguments=None,
           send_arguments=(), during=None, send_extra=None):
    """One receiver and `senders` senders. `during(receiver, senders, site)` runs when they send;
    `send_extra[i]` are further arguments of sender i, which may then end as it likes."""
    with ExitStack() as stack:
        site = Site(system, stack)
        receiver_cores, sender_cores = cores()
        group = [*sizes(*message_sizes), "--senders", senders, *common]
        if receive_arguments is None:
            receive_arguments = system.receive_flags
        if system.in_process:
            return _in_one_process(site, [*group, *receive_arguments, *send_arguments,
                                          "--seconds", seconds], seconds)
        receiver = site.start("receive", [*group, *receive_arguments], receiver_cores)
        receiver.wait_ready(time.monotonic() + START_S)
        senders_started = []
        for number in range(senders):
            extra = send_extra[number] if send_extra else ()
            senders_started.append(
                site.start("send", [*group, "--seconds", seconds, "--sender", number,
                                    *send_arguments, *extra], sender_cores, waits_for_go=True))
        for sender in senders_started:
            sender.wait_ready(time.monotonic() + START_S)
        for sender in senders_started:
            sender.go()
        observed = during(receiver, senders_started, site) if during else {}
        sends, problem = _end_of(receiver, senders_started, seconds)
        found = _summary(receiver.figures(), sends, receiver.started_ns, site)
        if problem:
            found["problem"] = problem
        return {**found, **observed}


def _end_of(receiver, senders, seconds):
    deadline = time.monotonic() + seconds + AFTER_S
    problem = ""
    sends = []
    for sender in senders:
        sender.wait_end(deadline)
    if not receiver.wait_end(deadline + 3):
        problem = "receiver did not end by itself"
        receiver.send_signal(signal.SIGTERM)
        if not receiver.wait_end(time.monotonic() + 3):
            raise RunFailed("receiver hangs")
    for sender in senders:
        try:
            sends.append(sender.figures())
        except RunFailed as why:
            sends.append(None)
            problem = problem or f"sender {why}"
    return sends, problem


def _in_one_process(site, arguments, seconds):
    child = site.start("both", arguments, None)
    if not child.wait_end(time.monotonic() + START_S + seconds + AFTER_S):
        raise RunFailed("hangs")
    found = child.figures()
    receive = {**found["receive"], "peak_kib": found["peak_kib"]}
    send = {**found["send"], "peak_kib": 0}
    return _summary(receive, [send], child.started_ns, site)


def round_trip(system, size, seconds, blocking):
    with ExitStack() as stack:
        site = Site(system, stack)
        receiver_cores, sender_cores = cores()
        arguments = [*sizes(size, size), *(["--blocking"] if blocking else [])]
        pong = site.start("pong", arguments, receiver_cores)
        pong.wait_ready(time.monotonic() + START_S)
        ping = site.start("ping", [*arguments, "--seconds", seconds], sender_cores,
                          waits_for_go=True)
        ping.wait_ready(time.monotonic() + START_S)
        ping.go()
        if not ping.wait_end(time.monotonic() + seconds + AFTER_S):
            raise RunFailed("hangs")
        pong.send_signal(signal.SIGTERM)  # so that it takes away what it has in shared memory
        pong.wait_end(time.monotonic() + 3)
        return ping.figures()


def requests(system, size, in_flight, seconds, fan_out=0, delay_us=(50_000, 100_000),
             memory_mib=None):
    """One client that keeps so many requests in flight, one service that replies with the body, and
    has so much memory at most."""
    with ExitStack() as stack:
        memory = None
        if memory_mib:
            memory = MemoryGroup(memory_mib)
            stack.callback(memory.close)
        site = Site(system, stack)
        service_cores, client_cores = cores()
        group = [*sizes(size, size), "--in-flight", in_flight, "--fan-out", fan_out,
                 "--delay-min", delay_us[0], "--delay-max", delay_us[1]]
        service = site.start("serve", group, service_cores, memory=memory)
        service.wait_ready(time.monotonic() + START_S)
        client = site.start("ask", [*group, "--seconds", seconds], client_cores,
                            waits_for_go=True)
        client.wait_ready(time.monotonic() + START_S)
        before_s = cpu_s(service.pid)
        client.go()
        if not client.wait_end(time.monotonic() + seconds + AFTER_S):
            raise RunFailed("hangs" if service.code is None else f"service {service.why()}")
        service_s = cpu_s(service.pid) - before_s
        try:
            asked = client.figures()
        except RunFailed as why:
            if service.code:  # the client says only that its connection has ended
                raise RunFailed(f"service {service.why()}") from why
            raise
        service.send_signal(signal.SIGTERM)
        if not service.wait_end(time.monotonic() + AFTER_S):
            raise RunFailed("service hangs")
        service.figures()
        server_s, server_kib = site.server_usage()
        per_second = asked["answered"] / asked["seconds"]
        busy = (service_s + server_s) / asked["seconds"]
        mib = (service.peak_kib + server_kib) / 1024
        return {
            "per_second": per_second,
            "peak_per_second": max(asked["slices"], default=0) * 10,
            "service_cpu": busy,
            "per_cpu_second": per_second / busy if busy else None,
            "client_cpu": asked["cpu_s"] / asked["seconds"],
            "service_mib": mib,
            "per_mib": per_second / mib if mib else None,
            "rtt_ns": asked["rtt_ns"],
            "corrupt": asked["corrupt"],
            "unanswered": asked["unanswered"],
        }


def cache(system, arguments):
    """`atbus bench cache` for that system: the command that it names, its figures as it tells them."""
    try:
        told = subprocess.run([*system.command, *arguments, "--json", "-"], capture_output=True,
                              text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired as why:
        raise RunFailed("hangs") from why
    if told.returncode != 0:
        raise RunFailed(without_folders(told.stderr.strip())[-200:] or "failed")
    found = json.loads(told.stdout)["rows"][0]
    return {
        "operations_per_second": 1e9 / found["ns_per_operation"],
        "ns_per_operation": found["ns_per_operation"],
        "server_cpu_ns": found["server_cpu_ns_per_operation"],
        "hit_percent": found["hit_percent"],
        "hot_hit_percent": found["hot_hit_percent"],
        "peak_mib": found["peak_kib"] / 1024,
        "hits_per_gib": found["hit_percent_per_gib"],
        "value_bytes_per_second": found["bytes_per_second"],
        "corrupt": found["corrupt"],
        "unanswered": found["failed"],
    }


def stopped_reader(system, rate, pause_s):
    """The receiver stops reading for a while: who drops, who refuses, who grows."""
    before_s, after_s = 1.0, 1.0

    def watch(receiver, senders, site):
        watched = {"receiver": receiver, "sender": senders[0]}
        if site.server:
            watched["server"] = site.server
        time.sleep(before_s * 0.8)
        start = {who: memory_kib(child.pid) or 0 for who, child in watched.items()}
        most = dict(start)
        end = time.monotonic() + pause_s
        while time.monotonic() < end:
            time.sleep(0.25)
            for who, child in watched.items():
                most[who] = max(most[who], memory_kib(child.pid) or 0)
        return {"growth_kib": {who: most[who] - start[who] for who in watched}}

    return stream(
        system, (1024, 1024), before_s + pause_s + after_s, common=["--paced"],
        receive_arguments=[*system.receive_flags, "--pause-after", before_s, "--pause-for",
                           pause_s],
        send_arguments=["--rate", rate], during=watch)


def disturbed_sender(system, disturbance, quiet_rate, stop_s):
    """Two senders; the first sends as fast as it can and is killed or stopped meanwhile."""
    before_s, after_s = 0.5, 1.0

    def disturb(_, senders, __):
        time.sleep(before_s)
        if disturbance == "kill":
            senders[0].send_signal(signal.SIGKILL)
        elif disturbance == "stop":
            senders[0].send_signal(signal.SIGSTOP)
            time.sleep(stop_s)
            senders[0].send_signal(signal.SIGCONT)
        return {}

    seconds = before_s + after_s + (stop_s if disturbance == "stop" else 0)
    # One that waits for the stopped sender is late, not lost.
    patience = 2 + (stop_s if disturbance == "stop" else 0)
    found = stream(system, (64, 64), seconds, senders=2, common=["--paced"], during=disturb,
                   receive_arguments=[*system.receive_flags, "--patience", patience],
                   send_extra=[["--rate", 1e9], ["--rate", quiet_rate]])
    delays = found["receive"].get("latency_max_ns") or [0, 0]
    found["delay_of_other_s"] = delays[1] / 1e9
    other = found["send"][1]
    found["other_accepted"] = other["accepted"] if other else 0
    found["other_expected"] = quiet_rate * seconds
    return found


def idle_connections(system, count):
    """Memory of both sides with so many connections that nobody uses."""
    with ExitStack() as stack:
        site = Site(system, stack)
        receiver_cores, sender_cores = cores()
        receiver = site.start("receive", ["--blocking", "--senders", count], receiver_cores)
        receiver.wait_ready(time.monotonic() + START_S)
        alone = memory_kib(receiver.pid) or 0
        holder = site.start("hold", ["--senders", count], sender_cores, waits_for_go=True)
        holder.wait_ready(time.monotonic() + START_S)
        time.sleep(0.3)
        return {
            "receiver_alone_kib": alone,
            "receiver_kib": memory_kib(receiver.pid),
            "holder_kib": memory_kib(holder.pid),
        }
