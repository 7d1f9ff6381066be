"""The certificate that a client has shown, as a part of the ASGI scope of its requests.

uvicorn passes a connection's TLS to no application, so that the protocols of the server's sockets add it to
the state that each scope has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from starlette.types import Scope

_CERTIFICATE: Final = "penstock.certificate"


def with_certificate(state: Mapping[str, Any], transport: asyncio.BaseTransport) -> dict[str, Any]:
    """Add the certificate of a connection's client to the state that its scopes have."""
    tls = transport.get_extra_info("ssl_object")
    return {**state, _CERTIFICATE: None if tls is None else tls.getpeercert(binary_form=True)}


def certificate_of(scope: Scope) -> bytes | None:
    """Return the certificate (DER) that the client of a request has shown, if it has shown one."""
    found: bytes | None = scope.get("state", {}).get(_CERTIFICATE)
    return found
