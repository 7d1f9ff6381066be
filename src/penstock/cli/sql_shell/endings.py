"""How a statement or the shell ends otherwise than with an answer."""

from __future__ import annotations


class Failed(Exception):
    """A statement was not carried out. The message says where it stands, too."""


class Interrupted(Exception):
    """Ctrl-C ended a query."""


class Exit(Exception):
    """The shell was told to end."""
