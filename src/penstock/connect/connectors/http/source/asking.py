"""The requests of the source: its templates, filled with the values of a position, and a page."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from penstock.connect.connectors.http.exchange.messages import HttpAnswer, HttpRequest
from penstock.connect.connectors.http.exchange.settings import headers_of
from penstock.connect.connectors.http.source.definition import OFFSET_ROOT, URL
from penstock.connect.connectors.http.source.items import millis_of
from penstock.connect.connectors.http.source.paging import Paging
from penstock.connect.connectors.http.source.progress import Position
from penstock.connect.connectors.http.templates import Template, in_url
from penstock.connect.data.json_text import quoted
from penstock.connect.errors import ConnectError, DataError

_AS_MILLIS: Final = "?datetime.iso?long"
"""castorm's connector writes a time as milliseconds for this suffix, which is FreeMarker's."""
_CONDITIONS: Final = {"etag": "if-none-match", "last-modified": "if-modified-since"}


class Asking:
    """Makes requests as a configuration says."""

    def __init__(self, config: Mapping[str, Any], paging: Paging) -> None:
        self._paging = paging
        self._url = Template(config[URL])
        self._method: str = config["http.request.method"].upper()
        self._headers = {"accept": "application/json"} | headers_of(config["http.request.headers"])
        pairs = (each.partition("=") for each in config["http.request.params"].split("&") if each.strip())
        self._params = [(name.strip(), Template(value.strip())) for name, _, value in pairs]
        self._body = Template(config["http.request.body"])

    def request(self, since: Position, page: Any) -> HttpRequest:
        """Return the request for a page. Raises ConnectError if a place has no value."""

        def lookup(name: str) -> Any:
            root, _, rest = name.partition(".")
            assert root == OFFSET_ROOT, "it was checked"
            value = since.values.get(rest.removesuffix(_AS_MILLIS))
            return millis_of(value) if rest.endswith(_AS_MILLIS) and value is not None else value

        try:
            if self._paging.names_urls and page is not None:
                url = page
            else:
                paging = self._paging.parameters(page)
                params = [(name, value.fill(lookup)) for name, value in self._params if name not in paging]
                url = with_parameters(self._url.fill(lookup, in_url), [*params, *paging.items()])
            body = self._body.fill(lookup, lambda text: quoted(text)[1:-1])
        except DataError as error:
            raise ConnectError(f"{error}; http.offset.initial sets values before the first item") from None
        return HttpRequest(self._method, url, self._headers, body.encode() or None)


def with_parameters(url: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Return a URL with more parameters."""
    if not parameters:
        return url
    scheme, host, path, query, fragment = urlsplit(url)
    added = urlencode(parameters, quote_via=quote)
    return urlunsplit((scheme, host, path, f"{query}&{added}" if query else added, fragment))


def name_of(request: HttpRequest) -> str:
    """Return a short name of a request, by which validators are known to be its own."""
    content = b"\0".join((request.method.encode(), request.url.encode(), request.body or b""))
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def conditional(request: HttpRequest, validators: Mapping[str, str]) -> HttpRequest:
    """Return a request that is answered with 304 if nothing has changed since its last answer."""
    if validators.get("request") != name_of(request):
        return request
    conditions = {header: validators[name] for name, header in _CONDITIONS.items() if name in validators}
    return request._replace(headers={**request.headers, **conditions})


def validators_of(request: HttpRequest, answer: HttpAnswer) -> dict[str, str]:
    """Return what makes the next request of the same kind a conditional one."""
    found = {name: answer.headers[name] for name in _CONDITIONS if name in answer.headers}
    return {"request": name_of(request), **found} if found else {}
