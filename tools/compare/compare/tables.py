"""The tables of the report, as text in cells; Markdown and HTML are made of the same."""

from dataclasses import dataclass

from compare import model
from compare.arithmetic import LOSSES


@dataclass
class Table:
    title: str
    note: str
    head: list
    body: list


def number(value, digits=3):
    if value is None:
        return "-"
    if value and abs(value) >= 10 ** digits:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def with_spread(cell, path, scale=1.0, digits=3):
    """Median and, where there were several runs, lowest to highest; why there is none."""
    found = cell.spread(path)
    if not found:
        failures = cell.failures()
        return f"failed: {failures[0][:60]}" if failures else "-"
    text = number(found["median"] * scale, digits)
    if found["runs"] > 1:
        text += f" ({number(found['low'] * scale, digits)}-{number(found['high'] * scale, digits)})"
    return text


def losses(cell):
    return [str(cell.total(name)) for name in LOSSES]


# What the ancestor of the design has published, of two cores of a Xeon of 2012: messages, or gigabytes, per second.
PUBLISHED = {
    "ancestor, shared memory, published": {"8-128 B": (5.25e6, None), "8-16384 B": (None, 1.56)},
    "ancestor, IPv6, published": {"8-128 B": (2.8e6, None), "8-16384 B": (None, 0.6)},
}


def _published(labels, which, scale):
    return [[name, *(number(at * scale if (at := told.get(label, (None, None))[which]) else None)
                     for label in labels), *("-" for _ in LOSSES)]
            for name, told in PUBLISHED.items()]


def throughput(summary):
    labels = summary.values("throughput", "size")
    body = []
    for name in summary.names(limits=True):
        cells = [summary.cell("throughput", name, size=label) for label in labels]
        if any(cell.entries for cell in cells):
            body.append([name, *(with_spread(cell, "rate", 1e-6) for cell in cells),
                         *losses(summary.of("throughput", name))])
    return Table("Throughput, million messages per second",
                 "One sender, one receiver, a core each. Every byte is written by the sender and "
                 "compared by the receiver. Median (lowest-highest) of the rounds. What the ancestor of atbus has "
                 "published is of a Xeon of 2012.",
                 ["system", *labels, *LOSSES], body and body + _published(labels, 0, 1e-6))


def bandwidth(summary):
    labels = summary.values("throughput", "size")
    body = []
    for name in summary.names(limits=True):
        cells = [summary.cell("throughput", name, size=label) for label in labels]
        if any(cells):
            body.append([name, *(number((cell.median("bytes_rate") or 0) / 1e9) for cell in cells),
                         *losses(summary.of("throughput", name))])
    return Table("The same in gigabytes per second", "Payload only.",
                 ["system", *labels, *LOSSES], body and body + _published(labels, 1, 1))


def round_trips(summary):
    body = []
    for name in summary.names(limits=True):
        row = [name]
        for waiting in ("polling", "blocking"):
            cell = summary.cell("round trip", name, waiting=waiting)
            row += [with_spread(cell, "rtt_ns.p50", 1e-3), number_us(cell.median("rtt_ns.p99")),
                    number_us(cell.median("rtt_ns.p999"))]
        whole = summary.of("round trip", name)
        if whole.entries:
            body.append([*row, str(whole.total("corrupt")), str(len(whole.failures()))])
    return Table("Round trip of 64 bytes, microseconds",
                 "There and back, one at a time. Polling looks again and again; blocking sleeps in "
                 "the system's own way, which may spin for a moment first. An answer that is lost "
                 "ends the run: it counts as failed.",
                 ["system", "polling p50", "p99", "p99.9", "blocking p50", "p99", "p99.9",
                  "corrupt", "failed"], body)


def number_us(ns):
    return number(ns / 1000) if ns is not None else "-"


def paced(summary):
    body = []
    for name in summary.names():
        row = [name, with_spread(summary.cell("paced maximum", name), "rate", 1e-6)]
        for load in summary.values("paced", "load"):
            cell = summary.cell("paced", name, load=load)
            row += [number_us(cell.median(f"receive.latency_ns.{p}")) for p in ("p50", "p99", "p999")]
        whole = summary.of("paced", name)
        if whole.entries:
            body.append([*row, *losses(whole)])
    head = ["system", "maximum, M/s"]
    for load in summary.values("paced", "load"):
        head += [f"{load} % p50", "p99", "p99.9"]
    return Table("Latency under load, microseconds",
                 "64 bytes, sent at a share of what the system itself reaches when each message "
                 "carries a time. Counted from the time at which a message was to be sent, so a "
                 "sender that falls behind does not hide it. What is due together leaves together, but where a "
                 "row says \"each\": there each message leaves by itself, as in a program that flushes or polls "
                 "after each.", [*head, *LOSSES], body)


def fan_in(summary):
    tables = []
    for size in summary.values("fan-in", "size"):
        counts = summary.values("fan-in", "senders")
        body = []
        for name in summary.names():
            cells = [summary.cell("fan-in", name, size=size, senders=n) for n in counts]
            if any(cell.entries for cell in cells):
                entries = [cell for cell in cells if cell]
                body.append([name, *(with_spread(cell, "rate", 1e-6) for cell in cells),
                             *(str(sum(cell.total(loss) for cell in entries)) for loss in LOSSES)])
        tables.append(Table(f"Fan-in, {size}, million messages per second",
                            "So many senders, processes of their own, to one receiver. The receiver "
                            "has a core, the senders share the others.",
                            ["system", *map(str, counts), *LOSSES], body))
    return tables


def costs(summary):
    body = []
    for name in summary.names(limits=True):
        fast = summary.cell("throughput", name, size="8-128 B")
        same = summary.cell("same rate", name)
        if not fast:
            continue
        body.append([
            name, with_spread(fast, "cpu_s_per_million"), with_spread(same, "cpu_s_per_million"),
            *(number((fast.median(f"peak_{side}_kib") or 0) / 1024)
              for side in ("receive", "send", "server")),
            with_spread(fast, "start_s", 1000), *losses(fast)])
    return Table("CPU, memory, start",
                 "CPU seconds per million messages, both sides and the server: at full speed (8-128 "
                 "bytes), and at the same 20,000 messages per second (64 bytes, both sides sleep "
                 "between them). Peak resident "
                 "memory in MB. Milliseconds from the start of the receiver to the first message, both "
                 "processes included.",
                 ["system", "CPU full speed", "CPU same rate", "MB receiver", "MB sender",
                  "MB server", "start, ms", *LOSSES], body)


def stopped_reader(summary):
    body = []
    for name in summary.names():
        cell = summary.cell("stopped reader", name)
        if not cell.entries:
            continue
        send = cell.good[0]["send"][0] if cell and cell.good[0]["send"] else None
        grown = {who: max((entry["growth_kib"].get(who, 0) for entry in cell.good), default=0)
                 for who in ("receiver", "sender", "server")} if cell else {}
        body.append([
            name, str(send["accepted"]) if send else "-", str(send["refused"]) if send else "-",
            number(send["longest_call_ns"] / 1e6) if send else "-",
            *(number(grown.get(who, 0) / 1024) for who in ("receiver", "sender", "server")),
            *losses(cell), "; ".join(cell.failures()[:1] + cell.problems()[:1]) or "-"])
    return Table("The receiver stops reading for 5 s",
                 "1 KiB, 20,000 messages per second. Refused: messages that the system did not take at "
                 "the first try; they were tried again. Longest call in milliseconds: a system that "
                 "blocks its caller shows here. Growth of memory in MB.",
                 ["system", "accepted", "refused", "longest call", "growth receiver", "sender",
                  "server", *LOSSES, "remarks"], body)


def disturbed(summary):
    body = []
    for name in summary.names():
        row = [name]
        for what in ("none", "kill", "stop"):
            row.append(with_spread(summary.cell("disturbed", name, what=what), "delay_of_other_s",
                                   1000))
        cells = [summary.cell("disturbed", name, what=what) for what in ("kill", "stop")]
        if not any(cell.entries for cell in cells):
            continue
        # The killed sender's own end without figures is no remark.
        remarks = [text for cell in cells for text in cell.failures() + cell.problems()
                   if "SIGKILL" not in text]
        body.append([*row, *(str(sum(cell.total(loss) for cell in cells)) for loss in LOSSES),
                     remarks[0] if remarks else "-"])
    return Table("A sender is killed, or stopped for 3 s, in the middle of sending",
                 "Two senders, 64 bytes: the first sends as fast as it can and is killed or stopped, "
                 "the second sends 1,000 a second. Longest delay of a message of the second, in "
                 "milliseconds: undisturbed, kill, stop. Lost, corrupt and reordered of both.",
                 ["system", "undisturbed", "kill", "stop", *LOSSES, "remarks"], body)


def connections(summary):
    counts = summary.values("connections", "count")
    body = []
    for name in summary.names():
        cells = [summary.cell("connections", name, count=count) for count in counts]
        if not any(cell.entries for cell in cells):
            continue
        row = [name]
        for cell in cells:
            parts = [cell.median("receiver_kib"), cell.median("holder_kib")]
            row.append(number(sum(parts) / 1024) if None not in parts
                       else (cell.failures() or ["-"])[0][:40])
        slope = model.kib_per_connection(summary, name)
        body.append([*row, number(slope), number(slope * model.NODES / 1024)
                     if slope is not None else "-"])
    return Table("Memory of idle connections, MB",
                 "Receiver and the process that holds the senders, together. No messages, so nothing "
                 "can be lost.",
                 ["system", *map(str, counts), "KiB each", f"MB for {model.NODES}"], body)


def scale(summary):
    body = []
    for name, fit in model.fits(summary).items():
        kind = next(s["kind"] for s in summary.systems if s["name"] == name)
        one, pairs = model.on_the_line(fit, 1024)
        lost = summary.of("throughput", name)
        body.append([
            name, number(fit["a"] * 1e9), number(fit["b"] * 1e12), number(100 * fit["worst"]) + " %",
            number(model.many_cores(fit, 64) / 1e6), number(model.many_cores(fit, 1024) / 1e6),
            f"{number(one / 1e6)} M/s; {number(pairs)} pairs" if kind == "tcp" else "-",
            *losses(lost)])
    return Table("The model and what it predicts", " ".join(model.ASSUMPTIONS),
                 ["system", "a, ns", "b, ps per byte", "largest error", "64 cores, 64 B, M/s",
                  "64 cores, 1 KiB, M/s", "100 Gbit/s, 1 KiB: one pair; to fill it", *LOSSES], body)


def requests(summary):
    """A table for each kind of request."""
    tables = []
    for what in summary.values("request", "what"):
        body = []
        for name in summary.names():
            cell = summary.cell("request", name, what=what)
            if not cell.entries:
                continue
            row = [name, with_spread(cell, "per_second")]
            row += [number(cell.median(path)) for path in
                    ("peak_per_second", "service_cpu", "per_cpu_second", "service_mib", "per_mib")]
            row += [number_us(cell.median(f"rtt_ns.{p}")) for p in ("p50", "p90", "p99", "p999")]
            body.append([*row, str(cell.total("corrupt")), str(cell.total("unanswered")),
                         (cell.failures() or ["-"])[0][:60]])
        tables.append(Table(
            f"Requests: {what}",
            "One client, one service, a core each; both sleep when nothing is there. CPU and memory "
            "are the service's, of NATS with its server. With tasks, the service decodes JSON, waits "
            "for 10 timers of 50 to 100 ms, and encodes the JSON again. Peak: the best tenth of a "
            "second. Times in microseconds, from the request to its reply.",
            ["system", "requests/s", "peak", "CPUs", "per CPU s", "MiB", "per MiB", "p50", "p90",
             "p99", "p99.9", "corrupt", "unanswered", "remarks"], body))
    return tables


def bounded_requests(summary):
    limits = summary.values("bounded request", "count")
    body = []
    for name in summary.names():
        cells = [summary.cell("bounded request", name, what=what, count=limit)
                 for what in summary.values("bounded request", "what") for limit in limits]
        if any(cell.entries for cell in cells):
            row = [name]
            for cell in cells:
                row += [with_spread(cell, "per_second"), number(cell.median("service_mib")),
                        number(cell.median("per_mib"))]
            body.append([*row, str(sum(cell.total("corrupt") for cell in cells)),
                         str(sum(cell.total("unanswered") for cell in cells))])
    head = ["system"]
    for limit in limits:
        head += [f"{limit} MiB: requests/s", "MiB", "per MiB"]
    return Table("Requests with 10 tasks each, 10000 in flight, within a limit of memory",
                 "The service is in a control group with so much memory and no swap; what needs more is "
                 "killed by the kernel. MiB: the peak of the service, with NATS and its server.",
                 [*head, "corrupt", "unanswered"], body)


def caches(summary):
    """A table for each kind of access."""
    tables = []
    for what in summary.values("cache", "what"):
        body = []
        for name in summary.names():
            cell = summary.cell("cache", name, what=what)
            if cell.entries:
                body.append([
                    name, with_spread(cell, "hit_percent"), with_spread(cell, "hot_hit_percent"),
                    with_spread(cell, "peak_mib"), with_spread(cell, "hits_per_gib"),
                    with_spread(cell, "ns_per_operation"), number(cell.median("server_cpu_ns")),
                    number((cell.median("value_bytes_per_second") or 0) / 1e6),
                    str(cell.total("corrupt")), str(cell.total("unanswered"))])
        tables.append(Table(
            f"Cache: {what}",
            "`atbus bench cache`: a server with that memory and one core, its keys four times as much "
            "as it can hold, four in five gets of a fifth of them, each miss followed by a set. Peak: "
            "VmHWM of the server. An operation is a get or a set; MB/s are of values, both ways.",
            ["system", "hits, %", "hot hits, %", "peak MiB", "hits per GiB", "ns per operation",
             "server's CPU ns", "MB/s", "corrupt", "unanswered"], body))
    return tables


def all_tables(summary):
    tables = [throughput(summary), bandwidth(summary), round_trips(summary), paced(summary),
              *fan_in(summary), costs(summary), stopped_reader(summary), disturbed(summary),
              connections(summary), *requests(summary), bounded_requests(summary),
              *caches(summary), scale(summary)]
    return [table for table in tables if table.body]
