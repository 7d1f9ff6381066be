"""The error of mirrors of databases."""

from __future__ import annotations

from penstock.errors import PenstockError


class MirrorError(PenstockError):
    """A mirror cannot start or go on; the message says what to change."""
