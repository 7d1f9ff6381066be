"""The machine on which the figures were measured, without anything that identifies it."""

import os
import platform
import re
import socket
from importlib.metadata import version
from pathlib import Path

import confluent_kafka

from side_by_side.brokers import Broker
from side_by_side.cores import Cores

TCP_ULP = 31
"""The socket option of Linux that puts a protocol above TCP."""


def describe(directory: Path, cores: Cores, brokers: list[Broker]) -> dict[str, str]:
    """Describe the machine, the disk of *directory*, and the versions."""
    return {
        **hardware(directory),
        "cores": f"{os.cpu_count()}; the broker on core {cores.broker}, clients on core {cores.client}",
        "kernel TLS": "available" if kernel_has_tls() else "not available",
        **{broker.name: broker.version() for broker in brokers},
        "librdkafka": f"{confluent_kafka.libversion()[0]} (confluent-kafka {version('confluent-kafka')})",
    }


def hardware(directory: Path) -> dict[str, str]:
    """Describe the processor, memory, kernel, and the file system of *directory*."""
    memory_kib = int(_first(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text()))
    return {
        "processor": _first(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text()),
        "memory": f"{memory_kib / (1 << 20):.0f} GiB",
        "kernel": platform.release(),
        "file system": file_system(directory),
    }


def file_system(directory: Path) -> str:
    """Return the type of the mount that holds *directory*."""
    path = directory.resolve()
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [(mount, kind) for mount, kind in mounts if path.is_relative_to(mount)]
    return max(holding, key=lambda entry: len(entry[0]))[1]


def kernel_has_tls() -> bool:
    """Return whether the kernel can encrypt what a socket sends."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
    ):
        try:
            one.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
        except OSError:
            return False
    return True


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1].strip() if found else "unknown"
