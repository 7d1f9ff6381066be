"""Listeners: the addresses that a node opens and advertises, and the addresses of quorum voters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from penstock.metadata.configs.definition import InvalidConfig, invalid
from penstock.security.access.exposure import is_loopback

SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Kafka's security protocols and their numbers in RegisterBroker records."""

_URI: Final = re.compile(
    r"(?P<name>[^:]+)://(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:\[\]]*)):(?P<port>-?\d+)"
)
ANY_ADDRESS: Final = ("", "0.0.0.0", "::")


class Listener(NamedTuple):
    """One endpoint; an empty ``host`` means every interface, and port 0 any free port."""

    name: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @property
    def is_on_loopback(self) -> bool:
        """Whether only this machine reaches the listener, as far as its host says."""
        return is_loopback(self.host)


class Address(NamedTuple):
    """The address of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Voter(NamedTuple):
    """A static member of the controller quorum."""

    node_id: int
    host: str
    port: int


def parse_protocol_map(key: str, text: str) -> dict[str, str]:
    """Parse ``NAME:PROTOCOL,...`` into a mapping of listener names to security protocols."""
    protocols: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, separator, protocol = item.partition(":")
        if not separator or protocol.strip().upper() not in SECURITY_PROTOCOLS:
            expected = ", ".join(SECURITY_PROTOCOLS)
            raise invalid(key, item, f"expected NAME:PROTOCOL with one of the protocols {expected}")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_listeners(key: str, uris: Sequence[str], protocols: Mapping[str, str]) -> list[Listener]:
    """Parse a list of ``NAME://host:port``; each name may occur only once."""
    listeners = [_parse_listener(key, uri, protocols) for uri in uris]
    names = [listener.name for listener in listeners]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise invalid(
            key, ",".join(uris), f"Each listener must have a different name, but {repeated} is repeated"
        )
    return listeners


def _parse_listener(key: str, uri: str, protocols: Mapping[str, str]) -> Listener:
    match = _URI.fullmatch(uri.strip())
    if match is None or not 0 <= int(match["port"]) <= 65535:
        raise invalid(key, uri, "expected NAME://host:port with a port from 0 to 65535")
    name = match["name"].upper()
    if name not in protocols:
        raise invalid(
            key, uri, f"No security protocol defined for listener {name} in listener.security.protocol.map"
        )
    return Listener(name, match["v6"] or match["host"], int(match["port"]), protocols[name])


def check_advertised(key: str, advertised: Sequence[Listener]) -> None:
    """Check that clients can connect to every advertised address. Raises InvalidConfig."""
    for listener in advertised:
        if listener.host in ANY_ADDRESS[1:]:
            raise invalid(
                key,
                str(listener),
                "an advertised listener cannot be the nonroutable meta-address; set advertised.listeners "
                "(penstock start --advertised HOST:PORT) to an address that clients can connect to",
            )


def parse_voters(items: Sequence[str]) -> list[Voter]:
    """Parse ``controller.quorum.voters``, whose format its rule has checked."""
    voters = []
    for item in items:
        node_id, _, address = item.partition("@")
        host, _, port = address.rpartition(":")
        voters.append(Voter(int(node_id), host.strip("[]"), int(port)))
    if len({voter.node_id for voter in voters}) < len(voters):
        raise InvalidConfig(
            "controller.quorum.voters", "controller.quorum.voters: each id may appear only once"
        )
    return voters


def parse_addresses(items: Sequence[str]) -> list[Address]:
    """Parse a list of ``host:port``, whose format its rule has checked."""
    addresses = []
    for item in items:
        host, _, port = item.rpartition(":")
        addresses.append(Address(host.strip("[]"), int(port)))
    return addresses
