"""The syntax of URIs as `java.net.URI` has it: RFC 2396 with RFC 2732, and non-ASCII letters unescaped.

`urllib.parse` accepts any text, changes the case of hosts, and knows no opaque URIs such as `mailto:a@b.c`.
ksqlDB's functions show what Java's class decides, so this module follows its documentation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from typing import Final


def _characters(allowed: str) -> re.Pattern[str]:
    """A pattern of these ASCII characters, escaped octets, and non-ASCII characters that are visible."""
    visible = r"[^\x00-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
    return re.compile(f"(?:[{allowed}]|%[0-9A-Fa-f]{{2}}|{visible})*")


_UNRESERVED: Final = r"A-Za-z0-9_\-!.~'()*"
_URI_CHARACTERS: Final = _characters(_UNRESERVED + r";/?:@&=+$,\[\]")
_PATH_CHARACTERS: Final = _characters(_UNRESERVED + r":@&=+$,;/")
_USER_CHARACTERS: Final = _characters(_UNRESERVED + r";:&=+$,")
_REGISTRY_CHARACTERS: Final = _characters(_UNRESERVED + r"$,;:@&=+")
_SERVER_CHARACTERS: Final = _characters(_UNRESERVED + r";:&=+$,@\[\]")
_SERVER_CHARACTERS_AND_PERCENT: Final = _characters(_UNRESERVED + r";:&=+$,@\[\]%")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_PARTS: Final = re.compile(r"(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_SERVER: Final = re.compile(
    r"(?:(?P<user>[^@]*)@)?(?P<host>\[(?P<address>[^\]%]*)(?:%(?P<scope>[^\]]*))?\]|[^:]*)(?::(?P<port>[0-9]*))?"
)
_SCOPE: Final = re.compile(r"[A-Za-z0-9_.]+")
_ADDRESS: Final = re.compile(r"\d+(?:\.\d+){3}")
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?"
_HOST_NAME: Final = re.compile(rf"(?:{_LABEL}\.)*(?P<last>{_LABEL})\.?")
_OCTETS: Final = re.compile("(?:%[0-9A-Fa-f]{2})+")
_PORT_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Uri:
    """The parts of a URI as Java's getters return them: path, query and fragment decoded, absent parts None.

    An opaque URI has neither host nor path nor query. Without a valid host name or port, the authority is a
    name of a registry, and host and port are None.
    """

    scheme: str | None = None
    host: str | None = None
    port: int | None = None
    path: str | None = None
    query: str | None = None
    fragment: str | None = None


def parse_uri(text: str) -> Uri:
    """Parse a URI. Raises ValueError if `java.net.URI` refuses the text."""
    scheme, rest = _split_scheme(text)
    if scheme is not None and not rest.startswith("/"):
        opaque, has_fragment, fragment = rest.partition("#")
        if not opaque:
            raise ValueError(f"found {text!r}, expected a URL with more than a scheme")
        _check(_URI_CHARACTERS, opaque, text)
        _check(_URI_CHARACTERS, fragment, text)
        return Uri(scheme, fragment=_decoded(fragment) if has_fragment else None)
    parts = _PARTS.fullmatch(rest)
    assert parts is not None, "the pattern matches any text"
    authority, path, query, found_fragment = parts.groups()
    if authority == "" and not path and query is None and found_fragment is None:
        raise ValueError(f"found {text!r}, expected a host after //")
    _check(_PATH_CHARACTERS, path, text)
    for part in (query, found_fragment):
        _check(_URI_CHARACTERS, part or "", text)
    host, port = _server_of(authority, text) if authority else (None, None)
    return Uri(scheme, host, port, _decoded(path), _decoded(query), _decoded(found_fragment))


def _split_scheme(text: str) -> tuple[str | None, str]:
    """The scheme, if any, and the text after its colon."""
    before = re.split("[/?#]", text, maxsplit=1)[0]
    if ":" not in before:
        return None, text
    scheme, _, rest = text.partition(":")
    if _SCHEME.fullmatch(scheme) is None:
        raise ValueError(f"found {text!r}, expected a URL that begins with a scheme such as http:")
    return scheme, rest


def _server_of(authority: str, text: str) -> tuple[str | None, int | None]:
    """The host and port of an authority; neither, if it is a name of a registry."""
    is_name = _REGISTRY_CHARACTERS.fullmatch(authority) is not None
    # With a literal IPv6 address, a percent sign may begin a scope.
    allowed = _SERVER_CHARACTERS_AND_PERCENT if "]" in authority[1:] else _SERVER_CHARACTERS
    if allowed.fullmatch(authority) is not None:
        found = _parsed_server(authority)
        if found is not None:
            return found
    if not is_name:
        raise ValueError(f"found {text!r}, expected a URL, with a valid host: {authority!r} is none")
    return None, None


def _parsed_server(authority: str) -> tuple[str, int | None] | None:
    found = _SERVER.fullmatch(authority)
    if found is None or _USER_CHARACTERS.fullmatch(found["user"] or "") is None:
        return None
    host, port = found["host"], found["port"]
    if port and int(port) > _PORT_MAX:
        return None
    if found["address"] is not None:
        scope = found["scope"]
        if not _is_ipv6(found["address"]) or (scope is not None and _SCOPE.fullmatch(scope) is None):
            return None
    elif not _is_ipv4(host) and not _is_host_name(host):
        return None
    return host, int(port) if port else None


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def _is_ipv4(text: str) -> bool:
    return _ADDRESS.fullmatch(text) is not None and all(int(byte) <= 255 for byte in text.split("."))


def _is_host_name(text: str) -> bool:
    """Whether the labels are valid; the last of several begins with a letter."""
    found = _HOST_NAME.fullmatch(text)
    return found is not None and (found["last"][0].isalpha() or found.start("last") == 0)


def _check(allowed: re.Pattern[str], part: str, text: str) -> None:
    found = allowed.match(part)
    assert found is not None, "the pattern matches the empty text"
    if found.end() < len(part):
        raise ValueError(f"found {text!r}, expected a URL: {part[found.end()]!r} is not allowed there")


def _decoded(part: str | None) -> str | None:
    """Decode escaped octets as UTF-8; each malformed sequence becomes U+FFFD."""
    if part is None or "%" not in part:
        return part
    return _OCTETS.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(errors="replace"), part)
