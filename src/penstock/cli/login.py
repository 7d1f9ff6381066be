"""Find out why brokers do not let a client in: librdkafka retries, and reports only that none answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.cli.client_properties import check_own_names

_TIMEOUT_MS: Final = "5000"


def login_refusal(bootstrap: str, properties: Mapping[str, str]) -> str | None:
    """The reason why TLS or SASL keeps the client of these properties out; None if it is in, or if unknown.

    Clients without either are not asked about, nor are those with librdkafka's own names of properties.
    """
    if properties.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT":
        return None
    from penstock.client.config import ClientConfig
    from penstock.client.connections.cluster import Cluster
    from penstock.client.errors import AuthenticationFailed, ClientError
    from penstock.client.settings import ConfigError

    timeouts = {"request.timeout.ms": _TIMEOUT_MS, "default.api.timeout.ms": _TIMEOUT_MS}
    try:
        check_own_names(properties)
        config = ClientConfig.from_properties({**properties, **timeouts, "bootstrap.servers": bootstrap})
        with Cluster(config) as cluster:
            cluster.refresh([])
    except AuthenticationFailed as error:
        return str(error)
    except (ClientError, ConfigError):
        return None
    return None
