"""The URL of the store that a configuration names, and the options of its client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.connect.connectors.objects import definition as keys
from penstock.connect.definitions.config_def import Password
from penstock.connect.errors import ConfigInvalid


def store_url(config: Mapping[str, Any]) -> str:
    """Return the URL of the store that a configuration names. Raises ConfigInvalid."""
    url, bucket = config[keys.URL], config[keys.BUCKET]
    if bool(url) == bool(bucket):
        raise ConfigInvalid(f"A store needs either {keys.URL} or {keys.BUCKET}.")
    return str(url or f"s3://{bucket}/{config[keys.PREFIX]}").rstrip("/")


def client_options(config: Mapping[str, Any], url: str) -> dict[str, Any]:
    """Return the options of the client, by the names that obstore has."""
    prefix = keys.OPTION_PREFIX
    found = {name.removeprefix(prefix): each for name, each in config.items() if name.startswith(prefix)}
    if url.startswith("s3"):
        secret: Password | None = config[keys.SECRET_KEY]
        named = {
            "region": config[keys.REGION],
            "endpoint": config[keys.ENDPOINT],
            "access_key_id": config[keys.ACCESS_KEY],
            "secret_access_key": secret.value if secret is not None else "",
        }
        found |= {name: each for name, each in named.items() if each}
    return found
