"""The keys of the HTTP source: castorm's names and defaults, and others for what its connector lacks."""

from __future__ import annotations

from typing import Any, Final

from penstock.connect.connectors.http.exchange.settings import (
    define_authorization,
    define_tls,
    http_url,
    named_headers,
)
from penstock.connect.connectors.http.templates import known_roots
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.config_types import invalid
from penstock.connect.definitions.validators import (
    CaseInsensitiveValidString,
    CompositeValidator,
    DescribedValidator,
    NonEmptyString,
    Range,
)

URL: Final = "http.request.url"
AUTHORIZATION: Final = "http.auth.type"
OFFSET_ROOT: Final = "offset"
_TEMPLATE: Final = DescribedValidator(known_roots(OFFSET_ROOT), "a template")


def _pointer(name: str, value: Any) -> None:
    if value is not None and value != "" and not value.startswith("/"):
        raise invalid(name, value, "expected a JSON pointer, which begins with /")


_POINTER: Final = DescribedValidator(_pointer, "a JSON pointer")


def source_definition() -> ConfigDef:
    """The keys of the source."""
    definition = ConfigDef().define(
        "kafka.topic",
        ConfigType.STRING,
        validator=NonEmptyString(),
        importance=Importance.HIGH,
        doc="The topic that gets the items.",
    )
    _define_requests(definition)
    define_authorization(definition, AUTHORIZATION, "none")
    _define_answers(definition)
    _define_pages(definition)
    _define_times(definition)
    return define_tls(definition)


def _define_requests(definition: ConfigDef) -> None:
    (
        definition.define(
            URL,
            ConfigType.STRING,
            validator=CompositeValidator(DescribedValidator(http_url, "a URL"), _TEMPLATE),
            importance=Importance.HIGH,
            doc="The URL to poll. It may have places such as ${offset.timestamp}.",
        )
        .define("http.request.method", ConfigType.STRING, "GET", NonEmptyString(), doc="The method.")
        .define(
            "http.request.headers",
            ConfigType.LIST,
            "",
            DescribedValidator(named_headers, "a list of name:value"),
            doc="Headers, as name:value, separated by commas.",
        )
        .define(
            "http.request.params",
            ConfigType.STRING,
            "",
            _TEMPLATE,
            doc="Parameters of the URL, as name=value, separated by &. Values may have places.",
        )
        .define("http.request.body", ConfigType.STRING, "", _TEMPLATE, doc="The body; it may have places.")
        .define(
            "http.offset.initial",
            ConfigType.LIST,
            "",
            DescribedValidator(_pairs, "a list of name=value"),
            doc="The values of places before the first item, as name=value, separated by commas.",
        )
    )


def _define_answers(definition: ConfigDef) -> None:
    (
        definition.define(
            "http.response.list.pointer",
            ConfigType.STRING,
            "/",
            _POINTER,
            doc="The JSON pointer to the list of items in an answer; / is the whole answer.",
        )
        .define(
            "http.response.record.pointer",
            ConfigType.STRING,
            "/",
            _POINTER,
            doc="The JSON pointer to a record's value in an item; / is the whole item.",
        )
        .define(
            "http.response.record.offset.pointer",
            ConfigType.LIST,
            "",
            DescribedValidator(_pointers, "a list of name=pointer"),
            Importance.HIGH,
            "JSON pointers to the values of an item that places get, as name=pointer. The value named key is "
            "the record's key, and the one named timestamp its time.",
        )
        .define(
            "http.response.list.order.direction",
            ConfigType.STRING,
            "IMPLICIT",
            CaseInsensitiveValidString("ASC", "DESC", "IMPLICIT"),
            doc="Whether the oldest item is first, or the newest; IMPLICIT compares the first timestamp and "
            "the last.",
        )
        .define(
            "http.response.policy.codes.process",
            ConfigType.LIST,
            "200..299",
            DescribedValidator(_ranges, "a list of codes or ranges"),
            Importance.LOW,
            "The status codes of answers that have items.",
        )
        .define(
            "http.response.policy.codes.skip",
            ConfigType.LIST,
            "304",
            DescribedValidator(_ranges, "a list of codes or ranges"),
            Importance.LOW,
            "The status codes of answers without items. Any other code is an error.",
        )
    )


def _define_pages(definition: ConfigDef) -> None:
    (
        definition.define(
            "http.page.mode",
            ConfigType.STRING,
            "none",
            CaseInsensitiveValidString("none", "link", "cursor", "page", "offset"),
            Importance.HIGH,
            "The way to the next page: the Link header, a cursor in the answer, a number of the page, or a "
            "number of items.",
        )
        .define(
            "http.next.page.json.pointer",
            ConfigType.STRING,
            None,
            _POINTER,
            doc="cursor: the JSON pointer to the next page's cursor, or to its URL, in an answer.",
        )
        .define(
            "http.page.parameter",
            ConfigType.STRING,
            None,
            doc="cursor, page, offset: the parameter of the URL that names the page.",
        )
        .define("http.page.first", ConfigType.LONG, None, doc="page: the first number, 1 by default.")
        .define(
            "http.page.size",
            ConfigType.INT,
            None,
            DescribedValidator(_no_or_positive, "null or [1,...]"),
            doc="page, offset: a page with fewer items is the last. For offset, an empty one is by default.",
        )
    )


def _define_times(definition: ConfigDef) -> None:
    for name, type_, default, doc in (
        ("http.timer.interval.millis", ConfigType.LONG, 60_000, "Between polls when nothing is new."),
        ("http.timer.catchup.interval.millis", ConfigType.LONG, 30_000, "Between polls while items are old."),
        ("http.client.connection.timeout.millis", ConfigType.LONG, 2000, "The wait for a connection."),
        ("http.client.read.timeout.millis", ConfigType.LONG, 2000, "The wait for more of an answer."),
        ("max.retries", ConfigType.INT, 5, "Failures in a row, for passing reasons, that are no error."),
        ("retry.backoff.ms", ConfigType.INT, 3000, "The wait after the first; it doubles up to a minute."),
    ):
        definition.define(name, type_, default, Range(0), doc=doc)


def pairs_of(pairs: list[str]) -> dict[str, str]:
    """Return the values by their names, of a list of `name=value`."""
    split = (each.partition("=") for each in pairs)
    return {name.strip(): value.strip() for name, _, value in split}


def codes_of(ranges: list[str]) -> list[range]:
    """Return ranges of status codes, of a list such as `200..299, 304`."""
    ends = (each.partition("..") for each in ranges)
    return [range(int(first), int(last or first) + 1) for first, _, last in ends]


def _pairs(name: str, value: Any) -> None:
    for each in value:
        if not each.partition("=")[1]:
            raise invalid(name, each, "expected name=value")


def _pointers(name: str, value: Any) -> None:
    _pairs(name, value)
    for pointer in pairs_of(value).values():
        _pointer(name, pointer)


def _ranges(name: str, value: Any) -> None:
    try:
        codes_of(value)
    except ValueError:
        raise invalid(name, value, "expected status codes such as 200..299, or 304") from None


def _no_or_positive(name: str, value: Any) -> None:
    if value is not None:
        Range(1)(name, value)
