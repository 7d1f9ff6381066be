"""The reasons why tokens and keys cannot be had."""

from __future__ import annotations

from penstock.security.sasl.clients import LoginUnavailable


class InvalidOAuth(ValueError):
    """A setting is missing or wrong. ``name`` is Kafka's name of it, and the message names it, too."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class EndpointFailed(Exception):
    """An endpoint gave no usable answer. ``is_final`` says that asking again is of no use."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class KeysUnavailable(Exception):
    """An issuer's keys cannot be had, or cannot be read; the message names the source."""


class TokenUnavailable(LoginUnavailable):
    """There is no token to log in with; the message says why and shows no secret."""
