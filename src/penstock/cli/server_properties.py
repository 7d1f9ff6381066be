"""The properties and the address of a server that a command starts, from a file and from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import javaproperties

from penstock.cli.config import parse_assignments
from penstock.cli.connection import EXIT_USAGE, fail


def server_properties(
    file: Path | None, clients: Mapping[str, str], settings: Sequence[str]
) -> dict[str, str]:
    """The properties of the option --config, overridden by those of clients and then by the options --set.

    A file that cannot be read and an invalid setting end the command.
    """
    found: dict[str, str] = {}
    if file is not None:
        try:
            with file.open("rb") as stream:
                found = dict(javaproperties.load(stream))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            fail(f"cannot read --config {file}: {reason}", EXIT_USAGE)
    return {**found, **clients, **parse_assignments(settings)}


def split_address(address: str) -> tuple[str, int]:
    """Parse host and port; an invalid address ends the command."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65535:
        fail(f"--listen {address}: expected HOST:PORT", EXIT_USAGE)
    return host.removeprefix("[").removesuffix("]"), int(port)
