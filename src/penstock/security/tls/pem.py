"""Reading PEM (RFC 7468), in the forms that Apache Kafka accepts (KIP-651).

In a line of a properties file the line breaks of PEM can be spaces, so sections are read by their markers,
not by lines.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from penstock.security.tls.der import DerError, only_value

MARK: Final = b"-----BEGIN "
_SECTION: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_HEADERS: Final = re.compile(r"\s*((?:[A-Za-z-]+:[^\r\n]*[\r\n]+)+)")


class Section(NamedTuple):
    """One section of a PEM file. Headers exist only where OpenSSL encrypted a key in its old format."""

    label: str
    headers: str
    data: bytes

    @property
    def text(self) -> str:
        headers = f"{self.headers}\n\n" if self.headers else ""
        return f"-----BEGIN {self.label}-----\n{headers}{_lines(self.data)}-----END {self.label}-----\n"


def sections(text: str) -> Iterator[Section]:
    """The sections of PEM text, in their order. Raises DerError if one is not base64 of one DER value."""
    for match in _SECTION.finditer(text):
        label, body = match.groups()
        found = _HEADERS.match(body)
        headers = found[1].strip() if found else ""
        try:
            data = base64.b64decode("".join(body[found.end() if found else 0 :].split()), validate=True)
        except ValueError as error:
            raise DerError(f"the section {label} is not base64: {error}") from None
        if not headers:
            only_value(data)
        yield Section(label, headers, data)


def certificates_text(certificates: Iterable[bytes]) -> str:
    """PEM with the given certificates."""
    return "".join(Section("CERTIFICATE", "", each).text for each in certificates)


def _lines(data: bytes) -> str:
    encoded = base64.b64encode(data).decode()
    return "".join(f"{encoded[at : at + 64]}\n" for at in range(0, len(encoded), 64))
