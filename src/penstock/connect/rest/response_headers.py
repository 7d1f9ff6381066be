"""Adds the headers of ``response.http.headers.config`` to responses."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import formatdate

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.connect.configs.rest_rules import check_header_rule, split_quoted


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """A header of all responses. The value of a date is its distance from now in milliseconds."""

    name: str
    value: str
    adds: bool
    is_date: bool

    @classmethod
    def parse(cls, text: str) -> HeaderRule:
        """Parse a rule such as ``add Cache-Control: no-cache``. Raises ConfigInvalid."""
        check_header_rule(text)
        action, header = text.split(maxsplit=1)
        name, _, value = header.partition(":")
        return cls(name.strip(), value.strip(), action.startswith("add"), action.endswith("Date"))

    def apply(self, headers: MutableHeaders, now_s: float) -> None:
        """Add or set the header."""
        value = self.value
        if self.is_date:
            value = formatdate(now_s + int(value) / 1000, usegmt=True)
        if self.adds:
            headers.append(self.name, value)
        else:
            headers[self.name] = value


def parse_rules(text: str) -> list[HeaderRule]:
    """Parse rules with commas between them. Raises ConfigInvalid."""
    return [HeaderRule.parse(each) for each in split_quoted(text)]


class ResponseHeaders:
    """Middleware that adds headers. The application's own headers of the same names stay, as in Kafka."""

    def __init__(self, application: ASGIApp, rules: Sequence[HeaderRule]) -> None:
        self._application = application
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own, added = MutableHeaders(scope=message), MutableHeaders()
                for rule in self._rules:
                    rule.apply(added, time.time())
                message["headers"] += [each for each in added.raw if each[0].decode("latin-1") not in own]
            await send(message)

        await self._application(scope, receive, send_with_headers)
