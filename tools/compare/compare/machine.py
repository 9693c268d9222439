"""What the figures were measured on and with."""

import os
import platform
import re
import subprocess


def _output(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        return (done.stdout or done.stderr).strip()
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
    return _read(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), path))


def versions():
    """By family; what is not there is left out."""
    found = {
        "atbus": _output("git", "-C", os.path.dirname(__file__), "describe", "--always", "--dirty"),
        "ZeroMQ": _packaged("libzmq"),
        "Aeron": _first(r"<aeron.version>(.*)<", _source("systems/aeron/pom.xml")),
        "iceoryx2": _first(r'^iceoryx2 = "(.*)"', _source("systems/iceoryx2/Cargo.toml")),
    }
    return {name: text for name, text in found.items() if text}
