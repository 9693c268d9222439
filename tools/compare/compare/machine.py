"""What the figures were measured on and with."""

import os
import platform
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _output(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        return (done.stdout or done.stderr).strip() if done.returncode == 0 else ""
    except (OSError, subprocess.SubprocessError):
        return ""


def _first(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(1).strip() if found else ""


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def describe():
    cpu = _read("/proc/cpuinfo")
    memory = _first(r"^MemTotal:\s*(\d+)", _read("/proc/meminfo"))
    return {
        "processor": _first(r"^model name\s*:\s*(.*)", cpu) or platform.machine(),
        "mhz": _first(r"^cpu MHz\s*:\s*([\d.]+)", cpu),
        "cores": len(os.sched_getaffinity(0)),
        "virtual": bool(re.search(r"^flags.*\bhypervisor\b", cpu, re.MULTILINE)),
        "memory_gib": round(int(memory) / (1 << 20)) if memory else None,
        "kernel": platform.release(),
        "compiler": _output("c++", "--version").split("\n", 1)[0],
    }


def _packaged(module):
    return _output("pkg-config", "--modversion", module)


def _source(path):
    return _read(os.path.join(HERE, path))


def _boost():
    return _first(r'BOOST_LIB_VERSION "(.*)"', _read("/usr/include/boost/version.hpp")).replace("_", ".")


def versions():
    """By family; what is not there is left out."""
    server = "nats-server" if shutil.which("nats-server") else "/usr/sbin/nats-server"
    found = {
        "atbus": _output("git", "-C", HERE, "describe", "--always", "--dirty"),
        "ZeroMQ": _packaged("libzmq"),
        "Aeron": _first(r"<aeron.version>(.*)<", _source("systems/aeron/pom.xml")),
        "iceoryx2": _first(r'^iceoryx2 = "(.*)"', _source("systems/iceoryx2/Cargo.toml")),
        "zenoh": _first(r'^zenoh = .*"([\d.]+)"', _source("systems/zenoh/Cargo.toml")),
        "nng": _packaged("nng") or _nng(),
        "NATS server": _first(r"v([\d.]+)", _output(server, "--version")),
        "NATS client": _packaged("libnats"),
        "gRPC": _packaged("grpc++"),
        "Vert.x": _first(r"vertx-core</artifactId>\s*<version>(.*)<",
                         _source("systems/vertx/pom.xml")),
        "boost": _boost(),
        "Cyclone DDS": _packaged("CycloneDDS"),
        "memcached": _first(r"([\d.]+)", _output("memcached", "--version")),
        "Redis": _first(r"v=([\d.]+)", _output("redis-server", "--version")),
    }
    return {name: text for name, text in found.items() if text}


def _nng():
    header = _read("/usr/include/nng/nng.h")
    parts = [_first(rf"#define NNG_{part}_VERSION (\d+)", header)
             for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(parts) if all(parts) else ""
