"""The ways in which a statement or the shell ends without an answer."""

from __future__ import annotations


class Failed(Exception):
    """A statement failed. The message includes its position."""


class Interrupted(Exception):
    """Ctrl-C ended a query."""


class Exit(Exception):
    """The user ended the shell."""
