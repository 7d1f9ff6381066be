"""A write goes to the leader as it came: same method, path and body, marked so that it goes no further."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.registry.store.election import Identity

#: As Confluent's instances mark what they forward.
FORWARD: Final = "x-forward"
_PASSED_ON: Final = ("content-type", "accept", "authorization", "x-request-id", "confluent-identity-pool-id")


class Unreachable(ConnectionError):
    """Nothing listens there: the request was not sent."""


class Interrupted(ConnectionError):
    """The request was sent and not answered: it may have been carried out."""


class Forwarded(NamedTuple):
    """The leader's answer."""

    status: int
    content_type: str | None
    body: bytes


def forward(
    leader: Identity,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
) -> Forwarded:
    """``tls`` is for a leader that listens by it; None trusts whom the system does.

    Raises Unreachable, Interrupted.
    """
    connection = (
        http.client.HTTPSConnection(leader.host, leader.port, timeout=timeout_s, context=tls)
        if leader.scheme == "https"
        else http.client.HTTPConnection(leader.host, leader.port, timeout=timeout_s)
    )
    sent = {name: headers[name] for name in _PASSED_ON if name in headers}
    try:
        try:
            connection.connect()
        except OSError as error:
            raise Unreachable(f"the leader at {leader.url} can't be reached: {error}") from error
        try:
            connection.request(method, target, body or None, {**sent, "X-Forward": "true"})
            answer = connection.getresponse()
            return Forwarded(answer.status, answer.getheader("content-type"), answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise Interrupted(f"the leader at {leader.url} did not answer: {error!r}") from error
    finally:
        connection.close()
