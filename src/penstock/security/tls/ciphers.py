"""Cipher suites: the names that Java and IANA give them, and OpenSSL's.

Before Python 3.15, `ssl` cannot choose among the suites of TLS 1.3; OpenSSL offers all three. A list of
suites decides nevertheless which versions are possible: one without suites of TLS 1.3 excludes this version,
as in Java.
"""

from __future__ import annotations

import re
import ssl
from typing import Final

from penstock.security.tls.errors import InvalidTls

TLS13_SUITES: Final = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
)
_NAME: Final = re.compile(r"TLS_(?:(ECDHE|DHE)_)?(RSA|ECDSA)_WITH_(.+)")
_ENCRYPTIONS: Final = (
    (re.compile(r"AES_(128|256)_GCM_(SHA\d+)"), r"AES\1-GCM-\2"),
    (re.compile(r"AES_(128|256)_CCM(?:_(8))?"), r"AES\1-CCM\2"),
    (re.compile(r"AES_(128|256)_CBC_(SHA\d*)"), r"AES\1-\2"),
    (re.compile(r"CHACHA20_POLY1305_SHA256"), "CHACHA20-POLY1305"),
)


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2: ECDHE-RSA-AES128-GCM-SHA256. Raises InvalidTls."""
    match = _NAME.fullmatch(suite)
    if match is not None:
        exchange, signature, encryption = match.groups()
        for pattern, replacement in _ENCRYPTIONS:
            found = pattern.fullmatch(encryption)
            if found is not None:
                names = [exchange, signature] if exchange else []
                name = "-".join((*names, found.expand(replacement)))
                if exchange or signature == "RSA":
                    return _known(suite, name)
    raise InvalidTls(
        f"'ssl.cipher.suites' has {suite!r}, which is not supported: expected names such as "
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    )


def _known(suite: str, name: str) -> str:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(name)
    except ssl.SSLError:
        raise InvalidTls(
            f"'ssl.cipher.suites' has {suite!r}, which {ssl.OPENSSL_VERSION} does not have"
        ) from None
    return name


def choose(context: ssl.SSLContext, protocols: tuple[str, ...], suites: tuple[str, ...]) -> None:
    """Let the context negotiate these versions and suites; without suites, OpenSSL's default ones.

    Raises InvalidTls if the suites cannot be chosen, or if they leave no version.
    """
    if suites:
        of_13 = [each for each in suites if each in TLS13_SUITES]
        of_12 = [openssl_name(each) for each in suites if each not in TLS13_SUITES]
        possible = {"TLSv1.3": of_13, "TLSv1.2": of_12}
        if "TLSv1.3" in protocols and of_13 and len(set(of_13)) < len(TLS13_SUITES):
            raise InvalidTls(
                f"'ssl.cipher.suites' has {', '.join(of_13)}: expected all of {', '.join(TLS13_SUITES)} "
                "or none, because Python's ssl cannot choose among the suites of TLS 1.3"
            )
        protocols = tuple(each for each in protocols if possible[each])
        if not protocols:
            raise InvalidTls("'ssl.cipher.suites' has no suite for any version in 'ssl.enabled.protocols'")
        if of_12:
            context.set_ciphers(":".join(of_12))
    versions = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
    context.minimum_version = versions[protocols[0]]
    context.maximum_version = versions[protocols[-1]]
