"""Validate the configurations of connectors, with everything that they name.

    connector_validation  the whole validation, as the REST API shows it
    enriched              the keys of a connector with those of its transforms and predicates
    client_overrides      which keys of its clients a connector may override
    config_infos          the result

Nothing here starts a connector: one is made to ask for its definition and for its own checks.
"""

from penstock.connect.validation.client_overrides import OverridePolicy, worker_policy
from penstock.connect.validation.config_infos import ConfigInfo, ConfigInfos, ConfigKeyInfo, ConfigValueInfo
from penstock.connect.validation.connector_validation import ConnectorValidator

__all__ = [
    "ConfigInfo",
    "ConfigInfos",
    "ConfigKeyInfo",
    "ConfigValueInfo",
    "ConnectorValidator",
    "OverridePolicy",
    "worker_policy",
]
