"""The settings of one mechanism on one listener, under the prefixes that Kafka gives them."""

from __future__ import annotations

from typing import Final

from penstock.metadata.configs import BrokerConfig
from penstock.metadata.configs.reference import broker_key

_JAAS: Final = "sasl.jaas.config"


class MechanismSettings:
    """Settings with the prefix of listener and mechanism, with that of the listener, or without one."""

    def __init__(self, config: BrokerConfig, listener_name: str, mechanism: str) -> None:
        self._config = config
        self.listener_name = listener_name
        prefix = f"listener.name.{listener_name.lower()}."
        self._prefixes = (f"{prefix}{mechanism.lower()}.", prefix, "")

    @property
    def jaas_name(self) -> str:
        """The name of the login settings, which have the most specific prefix and no other."""
        return self._prefixes[0] + _JAAS

    @property
    def jaas(self) -> str | None:
        return self._config.text(self.jaas_name)

    def get(self, name: str) -> object:
        """The parsed value under Kafka's name, with the most specific prefix; None if it is not set.

        Some configs are only for clients; as in Kafka, brokers do not know these.
        """
        return None if broker_key(name) is None else self._config[self.set_name(name)]

    def set_name(self, name: str) -> str:
        """The name under which a config is set; its plain name if it is not."""
        names = (prefix + name for prefix in self._prefixes)
        return next((each for each in names if self._config.text(each) is not None), name)
