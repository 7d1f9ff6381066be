"""The errors that a schema can have before its compatibility is checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import PenstockError


class SchemaError(PenstockError, ValueError):
    """The schema can't be used. The message says what was found, what was expected, and where."""


class UnknownReference(SchemaError):
    """A schema refers to a subject and version, or imports a name, that does not exist."""


class ReferenceCycle(SchemaError):
    """Schemas refer to each other in a cycle."""


class ComparisonTooLarge(SchemaError):
    """Comparing two schemas would take too long, because they combine too many alternatives."""


@contextmanager
def bounded() -> Iterator[None]:
    """Turn a RecursionError into a SchemaError.

    A schema may be nested by names as well as by brackets, deeper than any limit on the text can detect.
    """
    try:
        yield
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
