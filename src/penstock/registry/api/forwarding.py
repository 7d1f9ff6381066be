"""Forward a write to the leader unchanged, with a header that stops the leader from forwarding it again."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.registry.store.election import Identity

FORWARD: Final = "x-forward"
"""The header by which Confluent's instances mark forwarded requests."""
ON_BEHALF_OF: Final = "x-penstock-on-behalf-of"
"""The header by which an instance names the client of a forwarded request that has shown it a certificate."""
_PASSED_ON: Final = (
    *("content-type", "accept", "authorization", "x-request-id", "confluent-identity-pool-id"),
    ON_BEHALF_OF,
)


class Unreachable(ConnectionError):
    """The connection to the leader failed, so the request was not sent."""


class Interrupted(ConnectionError):
    """The request was sent but not answered, so it may have been carried out."""


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
    """Send the request to the leader and return its answer.

    ``tls`` is used if the leader listens with TLS; None trusts the system's certificate authorities. Raises
    Unreachable if nothing was sent, and Interrupted if the answer did not arrive.
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
