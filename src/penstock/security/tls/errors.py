"""Errors in settings of TLS, and in the stores that they name."""

from __future__ import annotations

from penstock.errors import PenstockError


class InvalidTls(PenstockError, ValueError):
    """A TLS setting that cannot be used; the message names the config, and never a password or a key."""


class InvalidStore(InvalidTls):
    """A store of keys or certificates that cannot be used; the message names its config and its file."""
