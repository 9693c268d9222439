"""Starts harnesses, watches their time, and keeps what they used."""

import json
import os
import re
import signal
import subprocess
import threading
import time


MEMORY_LOOK_S = 0.05
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
FOLDERS = re.compile(r"(?<![\w.])/(?:[\w.+@-]+/)+")


def without_folders(text):
    """What a program says of files, for a page that others read: where they are on this machine is left out."""
    return FOLDERS.sub("", text)


class RunFailed(Exception):
    """A run without figures; its text says why."""


class MemoryGroup:
    """A control group whose processes have so much memory together, and no swap, in either version
    of the kernel's interface. It takes the rights of root."""

    def __init__(self, mebibytes):
        version_2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        root = "/sys/fs/cgroup" if version_2 else "/sys/fs/cgroup/memory"
        self.path = f"{root}/atbus-compare-{os.getpid()}-{time.monotonic_ns()}"
        limit = "memory.max" if version_2 else "memory.limit_in_bytes"
        try:
            os.mkdir(self.path)
            self._write(limit, mebibytes << 20)
            if os.path.exists(f"{self.path}/memory.swap.max"):
                self._write("memory.swap.max", 0)
        except OSError as why:
            self.close()
            raise RunFailed(f"no control group for memory: {why.strerror}") from why

    def _write(self, file, value):
        with open(f"{self.path}/{file}", "w", encoding="ascii") as to:
            to.write(str(value))

    def enter(self):
        self._write("cgroup.procs", os.getpid())

    def close(self):
        """Once its processes have ended."""
        try:
            os.rmdir(self.path)
        except OSError:
            pass


class Child:
    """A process in a group of its own. Nothing of it outlives `close`."""

    def __init__(self, command, cores=None, environment=None, waits_for_go=False, memory=None):
        def prepare():
            if memory:
                memory.enter()
            if cores:
                os.sched_setaffinity(0, cores)

        self.started_ns = time.monotonic_ns()
        self.usage = None
        self.code = None
        self._lines = []
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if waits_for_go else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
            preexec_fn=prepare,
        )
        self.pid = self._process.pid
        self._errors = []
        self._error_reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        # Not ru_maxrss, which counts what this process had before it became another program.
        self.peak_kib = 0
        for thread in (self._error_reader, self._reader,
                       threading.Thread(target=self._watch_memory, daemon=True)):
            thread.start()

    def _read_errors(self):
        for line in self._process.stderr:
            self._errors = (self._errors + [line.strip()])[-20:]

    def _read(self):
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line.strip())
                self._changed.notify_all()
        _, status, usage = os.wait4(self.pid, 0)
        with self._changed:
            self.code = os.waitstatus_to_exitcode(status)
            self._process.returncode = self.code
            self.usage = usage
            self._changed.notify_all()

    def _watch_memory(self):
        while self.code is None:
            self.peak_kib = max(self.peak_kib, peak_kib(self.pid) or 0)
            with self._changed:
                self._changed.wait_for(lambda: self.code is not None, MEMORY_LOOK_S)

    def _wait(self, condition, deadline):
        with self._changed:
            return self._changed.wait_for(condition, max(0.0, deadline - time.monotonic()))

    def wait_ready(self, deadline):
        if not self._wait(lambda: "ready" in self._lines or self.code is not None, deadline):
            raise RunFailed("did not start in time")
        if "ready" not in self._lines:
            raise RunFailed(self.why())

    def go(self):
        """Lets a sender begin."""
        try:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended; its figures, or their absence, tell

    def wait_end(self, deadline):
        """True: it has ended."""
        return self._wait(lambda: self.code is not None, deadline)

    def figures(self):
        """What it printed at its end, with what it used."""
        if self.code != 0:
            raise RunFailed(self.why())
        objects = [line for line in self._lines if line.startswith("{")]
        if not objects:
            raise RunFailed("printed no figures")
        found = json.loads(objects[-1])
        found["process_cpu_s"] = self.usage.ru_utime + self.usage.ru_stime
        found["peak_kib"] = self.peak_kib
        return found

    def why(self):
        self._error_reader.join(1)
        text = COLOURS.sub("", "; ".join(line for line in self._errors[-3:] if line))
        if self.code is None:
            return "did not end in time"
        ended = f"killed by {signal.Signals(-self.code).name}" if self.code < 0 else "failed"
        return f"{ended}: {without_folders(text)}" if text else ended

    def send_signal(self, number):
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def close(self):
        """Ends it, if it has not ended, and everything it has started."""
        self.send_signal(signal.SIGKILL)
        self._reader.join(10)
        self._error_reader.join(1)
        # Whoever has left the group may hold the pipes; closing one that is read would wait for it.
        if self._process.stdin:
            try:
                self._process.stdin.close()
            except OSError:
                pass
        if not self._reader.is_alive() and not self._error_reader.is_alive():
            self._process.stdout.close()
            self._process.stderr.close()


def _number_in(path, field):
    """The number of a line `field: number`; None if there is none, or no such process any more."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return int(re.search(rf"^{field}:\s*(\d+)", file.read(), re.MULTILINE).group(1))
    except (OSError, AttributeError):
        return None


def memory_kib(pid):
    """Memory in use now: of shared pages its share. None: the process has gone."""
    return _number_in(f"/proc/{pid}/smaps_rollup", "Pss")


def peak_kib(pid):
    """The most memory it ever had resident, shared pages included. None: the process has gone."""
    return _number_in(f"/proc/{pid}/status", "VmHWM")


def cpu_s(pid):
    """What it has used so far, all its threads. 0: the process has gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cores():
    """The receiver's core and the senders': the last one, and all others."""
    known = sorted(os.sched_getaffinity(0))
    return {known[-1]}, set(known[:-1]) or {known[-1]}
