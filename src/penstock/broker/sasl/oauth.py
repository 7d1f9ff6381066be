"""OAUTHBEARER of a listener, and of a node's own logins, as its configuration says.

The settings name classes of Java, which only choose: nothing is loaded. Apache Kafka accepts tokens without a
signature unless the settings name another handler. Here the settings must name the handler that does so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from penstock.broker.sasl.mechanism_settings import MechanismSettings
from penstock.metadata.configs import BrokerConfig, InvalidConfig
from penstock.security.oauth.errors import InvalidOAuth
from penstock.security.oauth.login import OAuthLogin, read_login
from penstock.security.oauth.names import (
    JAAS,
    MODULE,
    SECURE_HANDLER,
    SERVER_HANDLER,
    UNSECURED_HANDLER,
    VALIDATOR,
    VALIDATORS,
)
from penstock.security.oauth.validator import TokenValidator, read_validator
from penstock.security.sasl.clients import OAUTHBEARER
from penstock.security.sasl.jaas import parse_jaas
from penstock.security.tokens.unsecured import UnsecuredRules, validate_unsecured
from penstock.security.tokens.validation import BearerToken

log = logging.getLogger(__name__)


class OAuthSettings(MechanismSettings):
    """The settings of OAUTHBEARER on one listener. Raises InvalidConfig."""

    def __init__(self, config: BrokerConfig, listener_name: str) -> None:
        super().__init__(config, listener_name, OAUTHBEARER)
        self._options = self._module_options()

    def validator(self, clock_ms: Callable[[], int]) -> TokenValidator | None:
        """Create the validator of signed tokens; None if the listener accepts tokens without a signature.

        Raises InvalidConfig.
        """
        self._check_choice(VALIDATOR, VALIDATORS)
        if self._check_choice(SERVER_HANDLER, (SECURE_HANDLER, UNSECURED_HANDLER)) == UNSECURED_HANDLER:
            return None
        try:
            return read_validator(self.get, self._options, clock_ms)
        except InvalidOAuth as error:
            raise self._invalid(error) from None

    def unsecured_validator(self, clock_ms: Callable[[], int]) -> Callable[[str], BearerToken]:
        """Create the validator of tokens without a signature. Raises InvalidConfig."""
        try:
            rules = UnsecuredRules.of_options(self._options)
        except ValueError as error:
            raise self._invalid(InvalidOAuth(JAAS, str(error))) from None
        log.warning(
            "everybody can log in as anybody: tokens need no signature listener=%s", self.listener_name
        )
        return lambda token: validate_unsecured(token, rules, clock_ms())

    def login(self) -> OAuthLogin:
        """Create the node's own login at other nodes. Raises InvalidConfig."""
        try:
            return read_login(self.get, self._options)
        except InvalidOAuth as error:
            raise self._invalid(error) from None

    def _module_options(self) -> Mapping[str, str]:
        """The options of the login module, which need not be set. Raises InvalidConfig."""
        name, text = self.jaas_name, self.jaas
        if text is None:
            return {}
        try:
            module = parse_jaas(text)
        except ValueError:
            raise InvalidConfig(name, f"{name}: expected '{MODULE} required name=\"value\" …;'") from None
        if module.name != MODULE:
            raise InvalidConfig(name, f"{name}: found the login module {module.name}, expected {MODULE}")
        return module.options

    def _check_choice(self, name: str, choices: tuple[str, ...]) -> str:
        """The class that a config names; the first of ``choices`` if it names none. Raises InvalidConfig."""
        value = self.get(name)
        if value not in (None, *choices):
            reason = f"found {value}, expected {' or '.join(choices)}; Java classes cannot be loaded"
            raise self._invalid(InvalidOAuth(name, reason))
        return str(value or choices[0])

    def _invalid(self, error: InvalidOAuth) -> InvalidConfig:
        return InvalidConfig(
            self.set_name(error.name), f"OAUTHBEARER on listener {self.listener_name}: {error}"
        )
