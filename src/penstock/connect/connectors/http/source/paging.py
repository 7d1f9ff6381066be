"""Decides which page follows an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from penstock.connect.connectors.http.exchange.messages import HttpAnswer
from penstock.connect.connectors.http.source.items import pointed
from penstock.connect.data.json_text import MISSING
from penstock.connect.errors import ConfigInvalid, ConnectError

_LINK: Final = re.compile(r'<([^>]*)>((?:\s*;\s*[^\s=;,]+\s*=\s*(?:"[^"]*"|[^",;]*))*)')
_RELATION: Final = re.compile(r'\brel\s*=\s*(?:"([^"]*)"|([^\s",;]*))', re.IGNORECASE)


class Paging:
    """The pages of an API. A page is a URL, a cursor or a number; None is the first one."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Raise ConfigInvalid if a key is missing."""
        self.mode: str = config["http.page.mode"].lower()
        self.parameter: str | None = config["http.page.parameter"]
        self._pointer: str | None = config["http.next.page.json.pointer"]
        self._size: int | None = config["http.page.size"]
        first: int | None = config["http.page.first"]
        self._first = (1 if self.mode == "page" else 0) if first is None else first
        if self.mode == "cursor" and not self._pointer:
            raise ConfigInvalid("http.next.page.json.pointer is missing: http.page.mode is cursor")
        if self.mode in ("page", "offset") and not self.parameter:
            raise ConfigInvalid(f"http.page.parameter is missing: http.page.mode is {self.mode}")
        if self.mode == "page" and self._size is None:
            # a page that is not full may grow, so that its number must not be left behind
            raise ConfigInvalid("http.page.size is missing: http.page.mode is page")

    @property
    def names_urls(self) -> bool:
        """Whether pages are URLs."""
        return self.mode == "link" or (self.mode == "cursor" and self.parameter is None)

    @property
    def waits_at_end(self) -> bool:
        """Whether an empty page that names a next one is the end for now; the next one is polled later."""
        return self.mode in ("link", "cursor")

    def parameters(self, page: Any) -> dict[str, str]:
        """Return the parameters of the URL that ask for a page."""
        if self.mode in ("page", "offset") and page is None:
            page = self._first
        if self.parameter is None or self.names_urls or page is None:
            return {}
        return {self.parameter: str(page)}

    def following(self, page: Any, url: str, answer: HttpAnswer, content: Any, count: int) -> Any:
        """Return the page after `page`, whose answer has `count` items; None if it is the last.

        Raises:
            ConnectError: the next page is on another server, or this page again.
        """
        match self.mode:
            case "link":
                following = next_link(answer.headers.get("link", ""))
            case "cursor":
                assert self._pointer is not None, "it was checked"
                following = pointed(content, self._pointer)
            case "page" | "offset":
                if count == 0 or (self._size is not None and count < self._size):
                    return None
                step = 1 if self.mode == "page" else count
                return (self._first if page is None else page) + step
            case _:
                return None
        if following is None or following is MISSING or following in ("", False):
            return None
        if self.names_urls:
            following = same_server(url, following)
        if following == page and count:
            raise ConnectError(f"the page {page!r} names itself as the next one")
        return following


def next_link(header: str) -> str | None:
    """Return the target of a Link header's relation `next` (RFC 8288)."""
    for target, parameters in _LINK.findall(header):
        relation = _RELATION.search(parameters)
        if relation is not None and "next" in (relation[1] or relation[2]).lower().split():
            return str(target)
    return None


def same_server(url: str, target: Any) -> str:
    """Return the URL of a page. Raises ConnectError if it leads to another server, which gets no secrets."""
    joined = urljoin(url, str(target))
    one, other = urlsplit(url), urlsplit(joined)
    if (one.scheme, one.netloc) != (other.scheme, other.netloc):
        raise ConnectError(
            f"the next page is at {other.scheme}://{other.netloc}, expected {one.scheme}://{one.netloc}"
        )
    return joined
