"""Values that configurations take from elsewhere, by variables such as ``${file:/run/secrets/db:password}``.

    provider     the interface of config providers
    files        values in a properties file, or in a directory with one file for each value
    environment  values in the environment
    transformer  replaces the variables of a configuration

A worker's configuration names the providers (`config.providers`). A variable of another provider, or one that
has no value, stays as it is.
"""

from penstock.connect.providers.provider import ConfigData, ConfigProvider
from penstock.connect.providers.transformer import (
    ConfigTransformer,
    resolved_worker,
    with_variables,
    worker_transformer,
)

__all__ = [
    "ConfigData",
    "ConfigProvider",
    "ConfigTransformer",
    "resolved_worker",
    "with_variables",
    "worker_transformer",
]
