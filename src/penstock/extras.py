"""Name the extra whose packages are missing, with the command that installs it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.errors import PenstockError


class MissingExtra(PenstockError, ImportError):
    """A package of one of Penstock's extras is not installed; the message has the command for it."""


def missing_extra(extra: str, what: str, packages: Sequence[str]) -> MissingExtra:
    """Return the error for packages that ``what`` needs and that ``extra`` installs."""
    python = shlex.quote(sys.executable)
    return MissingExtra(
        f"{what} needs {', '.join(packages)}. Install the extra with: {python} -m pip install "
        f"'penstock[{extra}]'"
    )


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Raise `MissingExtra` if an import in the block does not find a package of others."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "penstock"):
            raise
        raise missing_extra(extra, what, [package]) from error
