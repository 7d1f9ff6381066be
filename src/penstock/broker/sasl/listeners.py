"""SASL of a node's listeners, as its configuration says: mechanisms, users, tokens, the time of sessions.

The settings of a mechanism are those with the prefix of listener and mechanism, as in
`listener.name.external.plain.sasl.jaas.config`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.broker.peers.link import Dial
from penstock.broker.peers.sasl_link import SaslDial
from penstock.metadata.configs import BrokerConfig, InvalidConfig
from penstock.metadata.configs.definition import invalid
from penstock.security.sasl import plain, scram
from penstock.security.sasl.clients import GSSAPI, MECHANISMS, OAUTHBEARER, parse_login
from penstock.security.sasl.jaas import EXPECTED, parse_jaas
from penstock.security.scram import ScramMechanism, new_nonce

if TYPE_CHECKING:
    from penstock.broker.sasl.token_logins import TokenLogins
    from penstock.metadata.image.scram import ScramImage
    from penstock.security.oauth.validator import TokenValidator
    from penstock.security.sasl.server import Conversation, Mechanism

SASL_PROTOCOLS: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USER: Final = "user_"
_SECRET_BYTES: Final = 32

NO_MECHANISM: Final = "none"
"""The name in logs and metrics for the mechanism of a client that has not chosen one that is enabled."""


class LoginStats:
    """The counters of logins by one mechanism on one listener."""

    __slots__ = ("expired", "failed", "failed_again", "succeeded", "succeeded_again")

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0
        self.succeeded_again = 0
        """Successes of clients that authenticated again, before the end of their session."""
        self.failed_again = 0
        self.expired = 0
        """Connections that sent a request after the end of their session."""


class SaslListener:
    """The SASL of one listener. Raises InvalidConfig."""

    def __init__(
        self,
        name: str,
        config: BrokerConfig,
        users: Callable[[], ScramImage],
        tokens: TokenLogins,
        clock_ms: Callable[[], int],
        rng: Random,
    ) -> None:
        self.name = name
        self._prefix = f"listener.name.{name.lower()}."
        self._config = config
        self._users = users
        self._nonce = partial(new_nonce, rng)
        self._secret_without_users = rng.randbytes(_SECRET_BYTES)  # there is nothing to hide then
        self._tokens = tokens
        self.now_ms = clock_ms
        self.mechanisms = tuple(config.get_list(self._prefix + "sasl.enabled.mechanisms"))
        self.logins = {mechanism: LoginStats() for mechanism in (NO_MECHANISM, *self.mechanisms)}
        """The counters by mechanism."""
        self.max_receive_bytes = config.get_int(self._prefix + "sasl.server.max.receive.size")
        self.failure_delay_s = config.get_int("connection.failed.authentication.delay.ms") / 1000
        for mechanism in self.mechanisms:
            if mechanism not in MECHANISMS:
                reason = f"there is no such mechanism; expected some of {', '.join(MECHANISMS)}"
                raise invalid("sasl.enabled.mechanisms", mechanism, reason)
        self._passwords = self._plain_users() if "PLAIN" in self.mechanisms else {}
        self.token_validator: TokenValidator | None = None
        """The validator of signed tokens, which must be started; None if no such token is accepted."""
        self._begin_oauth: Mechanism | None = None
        if OAUTHBEARER in self.mechanisms:
            from penstock.broker.sasl.oauth import OAuthSettings  # imported only where it is needed
            from penstock.security.sasl import oauthbearer

            settings = OAuthSettings(config, name)
            self.token_validator = settings.validator(clock_ms)
            validate = self.token_validator or settings.unsecured_validator(clock_ms)
            self._begin_oauth = partial(oauthbearer.converse, validate)
        self._begin_kerberos: Mechanism | None = None
        if GSSAPI in self.mechanisms:
            from penstock.broker.sasl.kerberos import KerberosOfListener

            self._begin_kerberos = KerberosOfListener(config, name).mechanism()

    def converse(self, mechanism: str) -> Conversation:
        """Start a conversation by one of the mechanisms."""
        if mechanism == "PLAIN":
            return plain.converse(self._passwords)
        if self._begin_oauth is not None and mechanism == OAUTHBEARER:
            return self._begin_oauth()
        if self._begin_kerberos is not None and mechanism == GSSAPI:
            return self._begin_kerberos()
        number = ScramMechanism.of_title(mechanism)
        assert number is not None, f"{mechanism} is enabled"
        users = self._users()
        return scram.converse(
            number,
            partial(users.credential, number),
            lambda: users.secret() or self._secret_without_users,
            partial(self._tokens.login, number),
            self._nonce,
        )

    def session_ms(self, mechanism: str) -> int:
        """The longest time of a session; 0 if it has no end."""
        name = "connections.max.reauth.ms"
        for prefixed in (f"{self._prefix}{mechanism.lower()}.{name}", f"{self._prefix}{name}", name):
            text = self._config.text(prefixed)
            if text is not None:
                return int(text)
        return self._config.get_int(name)

    def _plain_users(self) -> dict[str, str]:
        """The users in the login settings of PLAIN. Raises InvalidConfig."""
        name = f"{self._prefix}plain.sasl.jaas.config"
        text = self._config.text(name)
        if text is None:
            raise InvalidConfig(name, f'{name} is not set: PLAIN needs users, as in user_alice="…"')
        try:
            module = parse_jaas(text)
        except ValueError as error:
            raise InvalidConfig(name, f"{name}: expected {error}") from None
        if module.name != _PLAIN_MODULE:
            raise InvalidConfig(
                name, f"{name}: found the login module {module.name}, expected {_PLAIN_MODULE}"
            )
        return {
            option.removeprefix(_USER): password
            for option, password in module.options.items()
            if option.startswith(_USER)
        }


class NodeSasl:
    """The SASL of all listeners of a node. Raises InvalidConfig."""

    def __init__(
        self,
        config: BrokerConfig,
        users: Callable[[], ScramImage],
        tokens: TokenLogins,
        clock_ms: Callable[[], int],
        rng: Random,
    ) -> None:
        self._config = config
        self._rng = rng
        self._listeners = {
            listener.name: SaslListener(listener.name, config, users, tokens, clock_ms, rng)
            for listener in config.listeners
            if listener.security_protocol in SASL_PROTOCOLS
        }
        validators = (listener.token_validator for listener in self._listeners.values())
        self._validators = [validator for validator in validators if validator is not None]

    def secured(self, listener_name: str, mechanism_config: str, dial: Dial) -> Dial:
        """Return a dial that logs in if this listener of other nodes has SASL. Raises InvalidConfig."""
        if self._config.security_protocol(listener_name) not in SASL_PROTOCOLS:
            return dial
        mechanism = self._config.get_str(mechanism_config)
        if mechanism not in MECHANISMS:
            reason = f"there is no such mechanism; expected one of {', '.join(MECHANISMS)}"
            raise invalid(mechanism_config, mechanism, reason)
        if mechanism == OAUTHBEARER:
            from penstock.broker.sasl.oauth import OAuthSettings

            token = OAuthSettings(self._config, listener_name).login()
            return SaslDial(dial, mechanism, lambda _host: token(), self._rng)
        if mechanism == GSSAPI:
            from penstock.broker.sasl.kerberos import KerberosOfListener

            ticket = KerberosOfListener(self._config, listener_name).login()
            return SaslDial(dial, mechanism, ticket, self._rng)
        name = f"listener.name.{listener_name.lower()}.{mechanism.lower()}.sasl.jaas.config"
        text = self._config.text(name)
        if text is None:
            raise InvalidConfig(
                name, f"{name} is not set: expected {EXPECTED} for connections to other nodes"
            )
        try:
            login = parse_login(text)
        except ValueError as error:
            raise InvalidConfig(name, f"{name}: expected {error}") from None
        return SaslDial(dial, mechanism, lambda _host: login, self._rng)

    @property
    def verifies_tokens(self) -> bool:
        """Whether `start` has something to get."""
        return bool(self._validators)

    def start(self) -> None:
        """Get the keys that verify tokens; this blocks until issuers answer. Raises KeysUnavailable."""
        try:
            for validator in self._validators:
                validator.start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for validator in self._validators:
            validator.close()

    def __iter__(self) -> Iterator[SaslListener]:
        return iter(self._listeners.values())

    def of(self, listener_name: str) -> SaslListener | None:
        """Return the SASL of a listener; None if it has none."""
        return self._listeners.get(listener_name)
