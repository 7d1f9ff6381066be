"""Loading a private key and its certificates into a context.

Python's `ssl` loads keys only from files. The file here lies in memory (memfd), so that a key which came in a
config or in an encrypted store never reaches a disk. Only where the system has no such files or no ``/proc``,
a temporary file that only this user can read takes its place for the moment of loading.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.security.tls.pem import certificates_text


class NoPassword(ValueError):
    """The key is encrypted, and no password is given."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key in PEM form, encrypted if ``password`` is given, and its certificates, its own first."""

    key: str = field(repr=False)
    chain: tuple[bytes, ...] = field(repr=False)
    password: str | None = field(default=None, repr=False)

    def load(self, context: ssl.SSLContext) -> None:
        """Load key and certificates into the context. Raises NoPassword, and SSLError if they do not fit."""

        def given_password() -> str:
            if self.password is None:
                raise NoPassword
            return self.password

        with _file_with(self.key + certificates_text(self.chain)) as path:
            context.load_cert_chain(path, password=given_password)


@contextmanager
def _file_with(content: str) -> Iterator[str]:
    descriptor = -1
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("penstock-key")
    path = f"/proc/self/fd/{descriptor}"
    if not os.path.exists(path):
        if descriptor >= 0:
            os.close(descriptor)
        descriptor, path = tempfile.mkstemp(prefix="penstock-", suffix=".pem")
    try:
        with open(descriptor, "w") as file:
            file.write(content)
            file.flush()
            yield path
    finally:
        if not path.startswith("/proc/"):
            os.unlink(path)
