"""Names of Kerberos principals with at most two components: ``service/host@REALM`` or ``user@REALM``."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_NAME: Final = re.compile("([^/@]*)(?:/([^/@]*))?@([^/@]*)")


class KerberosName(NamedTuple):
    """A principal's name. A name without a realm is that of a service alone."""

    service: str
    """The first component, which is the user of a client."""
    host: str | None = None
    realm: str | None = None

    @classmethod
    def parse(cls, text: str) -> KerberosName:
        """Read a name. Raises ValueError with Kafka's message."""
        match = _NAME.fullmatch(text)
        if match is not None:
            return cls(match[1], match[2], match[3])
        if "@" in text:
            raise ValueError(f"Malformed Kerberos name: {text}")
        return cls(text)

    def __str__(self) -> str:
        host = "" if self.host is None else f"/{self.host}"
        realm = "" if self.realm is None else f"@{self.realm}"
        return f"{self.service}{host}{realm}"
