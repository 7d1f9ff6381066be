"""Distinguished names as Java prints and compares them.

Kafka's rules and ACLs know a client by ``X500Principal.getName()``: RFC 2253, the last attribute first. Only
the nine types of RFC 2253 have keywords. Any other type is printed as its object identifier, and its value as
the hexadecimal digits of the DER: ``1.2.840.113549.1.9.1=#16…`` is an e-mail address.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final

from penstock.security.tls.der import SET, DerError, Value, sequence

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_VERSION: Final = 0xA0
_UTF8: Final = 0x0C
_PRINTABLE: Final = 0x13
_ENCODINGS: Final = {
    _UTF8: "utf-8",
    _PRINTABLE: "latin-1",
    0x14: "latin-1",  # TeletexString
    0x16: "latin-1",  # IA5String
    0x1B: "latin-1",  # GeneralString
    0x1E: "utf-16-be",  # BMPString
}
"""How Java decodes each type of string; values of other types are printed as DER."""

_ESCAPED: Final = {ord(character): f"\\{character}" for character in ',=+<>#;"\\'} | {0: "\\00"}
_ESCAPED_IN_CANONICAL: Final = {ord(character): f"\\{character}" for character in ',+<>;"\\'}

_SPACES: Final = re.compile(" +")
_TRIMMED: Final = "".join(map(chr, range(0x21)))
"""The characters that Java's ``String.trim`` removes."""


def subject_of(certificate: bytes) -> bytes:
    """The name of a certificate's subject (RFC 5280), both as DER. Raises DerError.

    `cryptography` refuses values of types that Java accepts, and handshakes do not wait for its import.
    """
    try:
        fields = sequence(certificate)[0].parts()
        return fields[5 if fields[0].tag == _VERSION else 4].encoded
    except (IndexError, DerError) as error:
        raise DerError(f"no X.509 certificate: {error}") from None


def distinguished_name(name: bytes) -> str:
    """The text of a DER-encoded name, as ``X500Principal.getName()`` returns it. Raises DerError."""
    return _text(name, _attribute, in_order=list)


def is_same_name(one: bytes, other: bytes) -> bool:
    """Whether two names are equal to Java, which ignores case and the amount of white space."""
    return _text(one, _canonical_attribute, in_order=sorted) == _text(
        other, _canonical_attribute, in_order=sorted
    )


def _text(name: bytes, attribute: Callable[[Value], str], in_order: Callable[[list[str]], list[str]]) -> str:
    relative = [each.parts(SET) for each in sequence(name)]
    return ",".join("+".join(in_order([attribute(part) for part in each])) for each in reversed(relative))


def _attribute(attribute: Value) -> str:
    keyword, value = _type_and_value(attribute)
    encoding = _ENCODINGS.get(value.tag)
    if keyword[0].isdigit() or encoding is None:
        return f"{keyword}=#{value.encoded.hex()}"
    text = value.contents.decode(encoding, "replace").translate(_ESCAPED)
    inner = text.strip(" \r")
    if not inner:
        return f"{keyword}=" + _with_backslashes(text)
    before, _, after = text.partition(inner)
    return f"{keyword}={_with_backslashes(before)}{inner}{_with_backslashes(after)}"


def _canonical_attribute(attribute: Value) -> str:
    keyword, value = _type_and_value(attribute)
    if keyword[0].isdigit() or value.tag not in (_UTF8, _PRINTABLE):
        return f"{keyword}=#{value.encoded.hex()}"
    text = value.contents.decode(_ENCODINGS[value.tag], "replace")
    mark = "\\" if text.startswith("#") else ""
    text = _SPACES.sub(" ", mark + text.translate(_ESCAPED_IN_CANONICAL)).strip(_TRIMMED)
    return unicodedata.normalize("NFKD", f"{keyword}={text}".upper().lower())


def _type_and_value(attribute: Value) -> tuple[str, Value]:
    parts = sequence(attribute.encoded)
    if len(parts) != 2:
        raise DerError("an attribute of a name without one value")
    oid = parts[0].oid
    return _KEYWORDS.get(oid, oid), parts[1]


def _with_backslashes(text: str) -> str:
    return "".join(f"\\{character}" for character in text)
