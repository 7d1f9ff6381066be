"""The error in settings of access."""

from __future__ import annotations

from penstock.errors import PenstockError


class InvalidAccess(PenstockError, ValueError):
    """A setting or a file that cannot be used; the message names it, and never a password."""
