"""What atbus is for, and whether it was reached: one line for each target."""

from compare.arithmetic import LOSSES, shortfall

ON_HOST = ("shm", "unix")  # what somebody on one host could use instead of shared memory
STALL_S = 0.1
MEMORY_MIB = 12


def _verdict(missed):
    return "reached" if missed <= 0 else f"missed by {100 * missed:.0f} %"


class Targets:
    def __init__(self, summary):
        self._summary = summary
        self.lines = []  # (target, verdict, figures)

    def _add(self, target, verdict, figures):
        self.lines.append((target, verdict, figures))

    def _against(self, target, ours, theirs, value, factor=1.0, larger=True, unit="", scale=1.0):
        """Our best against the best rival, for one figure."""
        our = self._summary.best(ours, value, larger)
        their = self._summary.best(theirs, value, larger)
        if our is None or their is None:
            self._add(target, "not measured", "")
            return
        if larger:
            missed = shortfall(our[0], factor * their[0])
        else:
            missed = our[0] / their[0] - 1 if their[0] else 0.0
        self._add(target, _verdict(missed),
                  f"{our[1]} {our[0] * scale:.3g}{unit}, {their[1]} {their[0] * scale:.3g}{unit}")

    def _throughput(self, label, our_kinds, their_kinds):
        s = self._summary
        ours, theirs = s.names(our_kinds, ours=True), s.names(their_kinds, rivals=True)
        for size in s.values("throughput", "size"):
            def rate(name, at=size):
                return s.cell("throughput", name, size=at).median("rate")

            self._against(f"{label}, {size}: first", ours, theirs, rate, unit=" M/s", scale=1e-6)
            if size == "8-128 B":
                only = [name for name in ours if "claim" in name] if label == "Shared memory" else ours
                self._against(f"{label}, {size}: 2 x the best rival", only, theirs, rate,
                              factor=2.0, unit=" M/s", scale=1e-6)

    def _fan_in(self):
        s = self._summary
        for size in s.values("fan-in", "size"):
            for senders in s.values("fan-in", "senders"):
                self._against(
                    f"Shared memory, {size}, {senders} senders: first",
                    s.names(("shm",), ours=True), s.names(ON_HOST, rivals=True),
                    lambda name, z=size, n=senders: s.cell("fan-in", name, size=z,
                                                           senders=n).median("rate"),
                    unit=" M/s", scale=1e-6)

    def _round_trips(self):
        s = self._summary
        for label, ours, theirs in (("Shared memory", ("shm",), ON_HOST),
                                    ("Unix socket", ("unix",), ("unix",)),
                                    ("TCP", ("tcp",), ("tcp",))):
            for waiting in ("polling", "blocking"):
                self._against(
                    f"{label}, round trip {waiting}: first",
                    s.names(ours, ours=True), s.names(theirs, rivals=True),
                    lambda name, w=waiting: s.cell("round trip", name,
                                                   waiting=w).median("rtt_ns.p50"),
                    larger=False, unit=" us", scale=1e-3)

    def _costs(self):
        s = self._summary
        for kind in ("shm", "unix", "tcp"):
            self._against(
                f"CPU per message at full speed, {kind}: lowest",
                s.names((kind,), ours=True), s.names((kind,), rivals=True),
                lambda name: s.cell("throughput", name, size="8-128 B").median(
                    "cpu_s_per_million"), larger=False, unit=" s per million")
            self._against(
                f"CPU per message at the same rate, {kind}: lowest",
                s.names((kind,), ours=True), s.names((kind,), rivals=True),
                lambda name: s.cell("same rate", name).median("cpu_s_per_million"),
                larger=False, unit=" s per million")
        worst = None
        for name in s.names(("shm", "unix", "tcp"), ours=True):
            cell = s.cell("throughput", name, size="8-128 B")
            for side in ("receive", "send"):
                kib = cell.median(f"peak_{side}_kib")
                if kib is not None:
                    worst = max(worst or (0, ""), (kib / 1024, f"{name}, {side}"))
        if worst:
            self._add(f"Memory: under {MEMORY_MIB} MB a side",
                      _verdict(worst[0] / MEMORY_MIB - 1), f"most: {worst[1]} {worst[0]:.1f} MB")

    def _flat(self):
        s = self._summary
        worst = None
        for name in s.names(("shm", "unix", "tcp"), ours=True):
            for entry in s.cell("stopped reader", name).good:
                grown = sum(entry["growth_kib"].values()) / 1024
                worst = max(worst or (0.0, name), (grown, name))
        if worst:
            self._add(f"Memory: flat, within {MEMORY_MIB} MB while the receiver does not read",
                      _verdict(worst[0] / MEMORY_MIB - 1),
                      f"grew most: {worst[1]} {worst[0]:.1f} MB")

    def _sound(self, name):
        """Whether a system came through kill and stop without loss, stall or corruption."""
        s = self._summary
        for what in ("kill", "stop"):
            cell = s.cell("disturbed", name, what=what)
            calm = s.cell("disturbed", name, what="none").median("delay_of_other_s")
            delay = cell.spread("delay_of_other_s")
            if not cell or calm is None or cell.failures():
                return False
            if any(cell.total(loss) for loss in LOSSES) or delay["high"] > calm + STALL_S:
                return False
            if any(entry["other_accepted"] < 0.9 * entry["other_expected"] for entry in cell.good):
                return False
        return True

    def _disturbances(self):
        s = self._summary
        tried = [name for name in s.names() if s.of("disturbed", name).entries]
        if not tried:
            return
        ours = [name for name in tried if name in s.names(ours=True)]
        sound = [name for name in tried if self._sound(name)]
        unsound = [name for name in ours if name not in sound]
        rivals = [name for name in sound if name not in ours]
        verdict = "reached"
        if unsound:
            verdict = "missed: " + ", ".join(unsound)
        elif rivals:
            verdict = "missed: we are, but not the only ones"
        self._add("Only one with no loss, stall or corruption when a sender is killed or stopped",
                  verdict, "without: " + (", ".join(sound) or "nobody"))

    def _requests(self):
        s = self._summary
        asked = s.values("request", "what")
        ways = (("shm or Unix socket", ON_HOST), ("TCP", ("tcp",)))
        for what in asked:
            def figure(path, at=what):
                return lambda name: s.cell("request", name, what=at).median(path)

            if "tasks" not in what:
                for label, kinds in ways:
                    self._against(f"Requests, {what}, {label}: 3 x the best rival",
                                  s.names(kinds, ours=True), s.names(kinds, rivals=True),
                                  figure("per_second"), factor=3.0, unit=" /s")
            elif what == asked[-1]:
                for label, path in (("CPU second", "per_cpu_second"), ("MiB", "per_mib")):
                    self._against(f"Requests, {what}: first per {label}", s.names(ours=True),
                                  s.names(rivals=True), figure(path), unit=f" per {label}")
        for limit in s.values("bounded request", "count"):
            self._against(
                f"Requests with 10 tasks each within {limit} MiB: first per MiB",
                s.names(ours=True), s.names(rivals=True),
                lambda name, m=limit: s.cell("bounded request", name, what=asked[-1],
                                             count=m).median("per_mib"), unit=" per MiB")

    def _caches(self):
        s = self._summary
        for what in s.values("cache", "what"):
            def figure(path, at=what):
                return lambda name: s.cell("cache", name, what=at).median(path)

            small = "KiB" in what
            for rival in ("memcached", "Redis"):
                theirs = [name for name in s.names() if name.startswith(rival)]
                self._against(f"Cache, {what}: hits per memory at least {rival}'s",
                              s.names(ours=True), theirs, figure("hits_per_gib"), unit=" % per GiB")
            for over in ("shm", "unix", "tcp"):
                factor = (10.0 if over == "shm" else 3.0) if small else 1.5
                self._against(
                    f"Cache, {what}, {over}: {factor:.3g} x memcached's speed",
                    [f"atbus cache {over}"], [f"memcached {'unix' if over == 'shm' else over}"],
                    figure("operations_per_second"), factor=factor, unit=" /s")

    def all(self):
        self._throughput("Shared memory", ("shm",), ON_HOST)
        self._fan_in()
        self._round_trips()
        self._throughput("TCP", ("tcp",), ("tcp",))
        self._throughput("Unix socket", ("unix",), ("unix",))
        self._costs()
        self._flat()
        self._disturbances()
        self._requests()
        self._caches()
        return self.lines
