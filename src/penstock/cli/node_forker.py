"""`python -m penstock.cli.node_forker FD`: run `penstock start` in forks of this process, on request.

A node spends most of its start on importing its modules. This process imports them once. Every node is a fork
of it, and needs a fifth of the processor time. The requests come over the Unix socket `FD`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import socket
import sys
from collections.abc import Sequence
from typing import Final

from penstock.cli import child
from penstock.processes.forker import Forker

PRELOADED: Final = ("penstock.cli.start", "penstock.broker.node")
REGISTRY: Final = "penstock.cli.embedded_registry"
"""Preloaded before the first node with a registry, since most tests have none."""


def preload(arguments: Sequence[str]) -> None:
    """Import what a node with these arguments needs."""
    if "--registry" in arguments and REGISTRY not in sys.modules:
        with contextlib.suppress(ImportError):  # the node reports which packages are missing
            load(REGISTRY)


def load(*modules: str) -> None:
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # so that the collector of a fork does not touch, and copy, what all forks share


def main() -> None:
    load(*PRELOADED)
    arguments = Forker(socket.socket(fileno=int(sys.argv[1])), preload).serve()
    if arguments is not None:
        sys.argv = ["penstock", "start", *arguments]
        child.run()


if __name__ == "__main__":
    main()
