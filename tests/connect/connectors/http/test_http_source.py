"""The HTTP source's task against a real server with several kinds of pages and failures."""

import gzip
import json
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from long_run import repetitions
from penstock.connect import ConfigInvalid, ConnectError, SourceTaskTest
from penstock.connect.connectors.http.exchange.authorization import FixedAuthorization
from penstock.connect.connectors.http.exchange.client import HttpClient
from penstock.connect.connectors.http.exchange.messages import HttpRequest, shown_url
from penstock.connect.connectors.http.source import HttpSourceConnector, HttpSourceTask
from penstock.connect.connectors.http.source.items import millis_of, pointed
from penstock.connect.connectors.http.source.paging import next_link
from penstock.connect.data.json_text import MISSING
from recording_http_server import CUT, Answer, Received, RecordingServer, json_answer, recording_server

OFFSETS = "key=/id, timestamp=/at"


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with recording_server() as server:
        yield server


def settings(server: RecordingServer, **more: str) -> dict[str, str]:
    quick = ("http.timer.interval.millis", "http.timer.catchup.interval.millis", "retry.backoff.ms")
    return {
        "kafka.topic": "items",
        "http.request.url": f"{server.url}/items",
        **dict.fromkeys(quick, "0"),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def test_items_become_records(server: RecordingServer) -> None:
    items = [
        {"id": 1, "at": "2026-01-01T00:00:00Z", "data": {"x": 1}},
        {"id": 2, "at": 1767225601, "data": 2},
    ]
    server.answer = lambda received: json_answer({"result": {"items": items}})
    more = {
        "http_request_headers": "X-A: 1, accept: text/json",
        "http_request_params": "a=b c&d=&e=1&e=2",
        "http_response_list_pointer": "/result/items",
        "http_response_record_pointer": "/data",
        "http_response_record_offset_pointer": OFFSETS,
    }
    with SourceTaskTest(HttpSourceTask(), settings(server, **more)) as test:
        first, second = test.poll()
        assert (first.topic, first.key, first.value, first.timestamp_ms) == (
            *("items", 1, {"x": 1}),
            1767225600000,
        )
        assert (second.key, second.value, second.timestamp_ms) == (2, 2, 1767225601000)
        assert test.poll() == []
    received = server.received[0]
    assert (received.method, received.path) == ("GET", "/items")
    assert received.query == {"a": "b c", "d": "", "e": "2"}
    assert received.target == "/items?a=b%20c&d=&e=1&e=2"
    assert received.headers["x-a"] == "1"
    assert received.headers["accept"] == "text/json"
    assert len({each.connection for each in server.received}) == 1


def test_templates_have_the_values_of_the_newest_item(server: RecordingServer) -> None:
    server.answer = lambda received: json_answer([{"n": 'q"1', "at": "2026-01-01T00:00:01Z"}])
    more = {
        "http_request_method": "POST",
        "http_request_params": "after=${offset.n}&ms=${offset.timestamp?datetime.iso?long}",
        "http_request_body": '{"after": "${offset.n}"}',
        "http_offset_initial": "n=0, timestamp=2026-01-01T00:00:00Z",
        "http_response_record_offset_pointer": "n=/n, timestamp=/at",
    }
    with SourceTaskTest(HttpSourceTask(), settings(server, **more)) as test:
        assert len(test.poll()) == 1
        test.restart(HttpSourceTask())
        assert test.poll() == []
    assert [json.loads(each.body) for each in server.received] == [{"after": "0"}, {"after": 'q"1'}]
    assert [each.query for each in server.received] == [
        {"after": "0", "ms": "1767225600000"},
        {"after": 'q"1', "ms": "1767225601000"},
    ]


def test_the_newest_item_may_come_first(server: RecordingServer) -> None:
    server.answer = lambda received: json_answer([{"id": 2, "at": 20}, {"id": 1, "at": 10}])
    more = {"http_response_record_offset_pointer": OFFSETS}
    with SourceTaskTest(HttpSourceTask(), settings(server, **more)) as test:
        assert [each.key for each in test.poll()] == [1, 2]
        assert test.poll() == []


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
def test_items_of_one_key_are_told_apart_by_the_other_values(server: RecordingServer, direction: str) -> None:
    items = [{"who": "a", "n": 1, "at": 10}, {"who": "a", "n": 2, "at": 11}]
    server.answer = lambda received: json_answer(items if direction == "ASC" else items[::-1])
    more = {
        "http_response_record_offset_pointer": "key=/who, timestamp=/at, n=/n",
        "http_response_list_order_direction": direction,
    }
    with SourceTaskTest(HttpSourceTask(), settings(server, **more)) as test:
        assert [each.value["n"] for each in test.poll()] == [1, 2]
        items.append({"who": "a", "n": 3, "at": 11})
        assert [each.value["n"] for each in test.poll()] == [3]
        assert test.poll() == []


def test_big_numbers_stay_as_they_are(server: RecordingServer) -> None:
    server.answer = lambda received: Answer(body=b'[{"n": 18446744073709551615}]')
    with SourceTaskTest(HttpSourceTask(), settings(server)) as test:
        assert [each.value for each in test.poll()] == [{"n": 18446744073709551615}]
    more = {"http_response_record_offset_pointer": "seq=/n"}
    with (
        SourceTaskTest(HttpSourceTask(), settings(server, **more)) as test,
        pytest.raises(ConnectError, match="beyond 64 bits at '/n'"),
    ):
        test.poll()


def test_parameters_of_the_url_are_not_stored(server: RecordingServer) -> None:
    """They may have secrets from config providers, and readers see offsets."""
    server.answer = lambda received: json_answer([1])
    url = f"{server.url}/items?token=secret"
    with SourceTaskTest(HttpSourceTask(), settings(server, http_request_url=url)) as test:
        assert len(test.poll()) == 1
        assert test.offset({"url": f"{server.url}/items"}) is not None
    assert server.received[0].query == {"token": "secret"}


def test_an_answer_has_a_limit(server: RecordingServer) -> None:
    packed = gzip.compress(bytes(1 << 20))
    server.answer = lambda received: Answer(200, packed, {"content-encoding": "gzip"})
    client = HttpClient(
        FixedAuthorization(),
        tls=None,
        connect_timeout_s=30,
        read_timeout_s=30,
        answer_bytes_max=(1 << 20) - 1,
    )
    with closing(client), pytest.raises(ConnectError, match="more than 1048575 bytes"):
        client.send(HttpRequest("GET", server.url, {}))


def test_an_unchanged_answer_is_not_sent_again(server: RecordingServer) -> None:
    version = "v1"

    def answer(received: Received) -> Answer:
        if received.headers.get("if-none-match") == version:
            return Answer(304)
        return json_answer({"version": version}, ETag=version, Last_Modified="Thu, 01 Jan 2026 00:00:00 GMT")

    server.answer = answer
    with SourceTaskTest(HttpSourceTask(), settings(server)) as test:
        assert [each.value for each in test.poll()] == [{"version": "v1"}]
        assert test.poll() == []
        test.restart(HttpSourceTask())
        assert test.poll() == []
        version = "v2"
        assert [each.value for each in test.poll()] == [{"version": "v2"}]
    assert "if-modified-since" in server.received[-1].headers


class Api:
    """Serves a list of items by one kind of pages, from the time in `since` on."""

    def __init__(
        self, server: RecordingServer, kind: str, *, descends: bool = False, fails: float = 0
    ) -> None:
        self.items: list[dict[str, Any]] = []
        self.server, self.kind, self.descends, self.fails = server, kind, descends, fails
        self.chance = random.Random(1)
        server.answer = self.answer

    def answer(self, received: Received) -> Answer:
        if self.chance.random() < self.fails:
            return self.chance.choice([Answer(500), Answer(429), CUT, Answer(503)])
        since = int(received.query.get("since", "0"))
        found = [each for each in self.items if each["at"] >= since]
        if self.descends:
            found.reverse()
        page = received.query.get("page")
        size = 3
        match self.kind:
            case "page":
                first = (int(page or 1) - 1) * size
            case _:
                first = int(page or 0)
        content: dict[str, Any] = {"items": found[first : first + size]}
        following = first + size if first + size < len(found) else None
        headers = {}
        if self.kind == "link" and following is not None:
            link = f"/items?since={since}&page={following}"
            headers["Link"] = f'</items>; rel="first", <{link}>; title="a, b"; rel="next last"'
        if self.kind == "cursor":
            content["next"] = following and str(following)
        if self.kind == "url":
            content["next"] = following and f"{self.server.url}/items?since={since}&page={following}"
        return json_answer(content, 200, **headers)


KINDS: Mapping[str, Mapping[str, str]] = {
    "link": {"http_page_mode": "link"},
    "cursor": {
        "http_page_mode": "cursor",
        "http_next_page_json_pointer": "/next",
        "http_page_parameter": "page",
    },
    "url": {"http_page_mode": "cursor", "http_next_page_json_pointer": "/next"},
    "page": {"http_page_mode": "page", "http_page_parameter": "page", "http_page_size": "3"},
    "offset": {"http_page_mode": "offset", "http_page_parameter": "page"},
}


@pytest.mark.longer
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("descends", [False, True])
def test_every_item_comes_once_whatever_happens(server: RecordingServer, kind: str, descends: bool) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    api = Api(server, kind, descends=descends, fails=0.1)
    api.chance = chance
    config = settings(
        server,
        **KINDS[kind],
        http_response_list_pointer="/items",
        http_response_record_offset_pointer=OFFSETS,
        http_request_params="since=${offset.timestamp}",
        http_offset_initial="timestamp=0",
        http_response_list_order_direction="DESC" if descends else "ASC",
        max_retries="1000",
    )
    found: list[int] = []
    at = 1_000_000_000
    with SourceTaskTest(HttpSourceTask(), config, exactly_once=True) as test:
        for _ in range(repetitions("PENSTOCK_HTTP_ROUNDS", 3, 50)):
            for _ in range(chance.randrange(8)):
                at += chance.choice([0, 0, 1])
                api.items.append({"id": len(api.items), "at": at})
            for _ in range(chance.randrange(6)):
                found += [each.value["id"] for each in test.poll()]
                if chance.random() < 0.1:
                    test.crash(HttpSourceTask())
        for _ in range(1000):
            if len(found) >= len(api.items):
                break
            found += [each.value["id"] for each in test.poll()]
        found += [each.value["id"] for _ in range(2) for each in test.poll()]
    assert sorted(found) == [each["id"] for each in api.items]
    if not descends:
        assert found == sorted(found)


def test_each_header_of_links_counts(server: RecordingServer) -> None:
    def answer(received: Received) -> Answer:
        if received.query:
            return json_answer([2])
        return json_answer([1], Link='</items?page=2>; rel="next"', link='</items?page=9>; rel="last"')

    server.answer = answer
    with SourceTaskTest(HttpSourceTask(), settings(server, http_page_mode="link")) as test:
        assert [each.value for each in test.take(2)] == [1, 2]


def test_a_feed_of_cursors_goes_on_where_it_was(server: RecordingServer) -> None:
    """Each answer has a cursor, also an empty one."""
    items: list[int] = [1, 2, 3]

    def answer(received: Received) -> Answer:
        first = int(received.query.get("after", 0))
        page = items[first : first + 2]
        return json_answer({"data": page, "next": first + len(page)})

    server.answer = answer
    more = {
        "http_page_mode": "cursor",
        "http_next_page_json_pointer": "/next",
        "http_page_parameter": "after",
        "http_response_list_pointer": "/data",
    }
    with SourceTaskTest(HttpSourceTask(), settings(server, **more)) as test:
        assert [each.value for each in test.take(3)] == [1, 2, 3]
        assert test.poll() == []
        items += [4, 5]
        assert [each.value for each in test.poll()] == [4, 5]
        test.restart(HttpSourceTask())
        items.append(6)
        assert [each.value for each in test.take(1)] == [6]


def test_a_sweep_whose_page_is_gone_after_a_restart_begins_again(server: RecordingServer) -> None:
    is_gone = False

    def answer(received: Received) -> Answer:
        if "page" in received.query:
            return Answer(410) if is_gone else json_answer([2])
        return json_answer([1], Link='</items?page=2>; rel="next"')

    server.answer = answer
    with SourceTaskTest(HttpSourceTask(), settings(server, http_page_mode="link")) as test:
        assert [each.value for each in test.poll()] == [1]
        is_gone = True
        test.restart(HttpSourceTask())
        assert test.poll() == []
        is_gone = False
        assert [each.value for each in test.take(2)] == [1, 2]
        is_gone = True
        assert [each.value for each in test.poll()] == [1]
        with pytest.raises(ConnectError, match="status 410"):
            test.poll()


def test_the_task_waits_between_polls(server: RecordingServer) -> None:
    server.answer = lambda received: json_answer([1])
    config = {**settings(server), "http.timer.catchup.interval.millis": "3600000"}
    with SourceTaskTest(HttpSourceTask(), config) as test:
        assert len(test.poll()) == 1
        assert test.poll() == []
    assert len(server.received) == 1


@pytest.mark.parametrize("failure", [Answer(500), CUT, Answer(429, headers={"Retry-After": "0"})])
def test_passing_failures_are_retried_and_then_fail(server: RecordingServer, failure: Answer) -> None:
    script = iter([failure, failure, json_answer([1]), failure, failure, failure])
    server.answer = lambda received: next(script)
    with SourceTaskTest(HttpSourceTask(), settings(server, max_retries="2")) as test:
        assert len(test.take(1)) == 1
        with pytest.raises(ConnectError, match="Failed after 2 retries"):
            test.take(1)


def test_the_server_says_how_long_to_wait(server: RecordingServer) -> None:
    script = iter([Answer(429, headers={"Retry-After": "3600"}), json_answer([1])])
    server.answer = lambda received: next(script)
    with SourceTaskTest(HttpSourceTask(), settings(server)) as test:
        assert test.poll() == []
        assert test.poll() == []
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("answer", "more", "error"),
    [
        (Answer(404, b"none"), {}, "GET http://.*/items was refused with status 404: none"),
        (Answer(302), {}, "status 302"),
        (Answer(200, b"<html>"), {}, "the answer is not JSON: '<html>'"),
        (json_answer({}), {"http_response_list_pointer": "/items"}, "nothing at '/items'"),
        (json_answer([{}]), {"http_response_record_pointer": "/data"}, "an item has nothing at '/data'"),
        (
            json_answer([{"id": None}]),
            {"http_response_record_offset_pointer": "key=/id"},
            "has null at '/id'",
        ),
        (
            json_answer([{"at": "soon"}]),
            {"http_response_record_offset_pointer": "timestamp=/at"},
            "timestamp is 'soon'",
        ),
        (json_answer([]), {"http_request_params": "a=${offset.timestamp}"}, "http.offset.initial sets"),
        (
            json_answer([1], Link='<http://else.where/items>; rel="next"'),
            {"http_page_mode": "link"},
            "the next page is at http://else.where",
        ),
    ],
)
def test_errors_say_what_is_wrong(
    server: RecordingServer, answer: Answer, more: Mapping[str, str], error: str
) -> None:
    server.answer = lambda received: answer
    with (
        SourceTaskTest(HttpSourceTask(), settings(server, **more)) as test,
        pytest.raises(ConnectError, match=error),
    ):
        test.poll()


@pytest.mark.parametrize(
    "more",
    [
        {"http.page.mode": "cursor"},
        {"http.page.mode": "offset"},
        {"http.page.mode": "page", "http.page.parameter": "page"},
        {"http.page.mode": "all"},
        {"http.request.url": "no url"},
        {"http.request.params": "a=${key}"},
        {"http.response.list.pointer": "items"},
        {"http.response.record.offset.pointer": "key"},
        {"http.response.policy.codes.process": "2xx"},
        {"http.auth.type": "basic"},
    ],
)
def test_wrong_configurations(server: RecordingServer, more: Mapping[str, str]) -> None:
    with (
        pytest.raises(ConfigInvalid),
        SourceTaskTest(HttpSourceTask(), {**settings(server), **more}),
    ):
        pass


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, False),
        ({"http.response.record.offset.pointer": "key=/id"}, True),
        ({"http.page.mode": "LINK"}, True),
        ({"http.page.mode": "page"}, False),
    ],
)
def test_exactly_once_needs_places_of_items(properties: Mapping[str, str], expected: bool) -> None:
    assert HttpSourceConnector().exactly_once_support(properties) is expected


def test_messages_show_no_secrets_of_urls() -> None:
    assert shown_url("http://user:p@ss@host:80/items?key=secret") == "http://host:80/items"
    assert shown_url("http://host/@items?next=http://a@b") == "http://host/@items"


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("", 0),
        ("/", 0),
        ("/a", 1),
        ("/b/1", 2),
        ("/b/2", MISSING),
        ("/c~1d~0", 3),
        ("/a/b", MISSING),
        ("/b/x", MISSING),
    ],
)
def test_pointers(pointer: str, expected: Any) -> None:
    content: Mapping[str, Any] | int = {"a": 1, "b": [0, 2], "c/d~": 3}
    assert pointed(content if pointer.strip("/") else 0, pointer) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-01T00:00:00Z", 1767225600000),
        ("2026-01-01T01:00:00+01:00", 1767225600000),
        ("2026-01-01", 1767225600000),
        (1767225600, 1767225600000),
        (1767225600.5, 1767225600500),
        (1767225600123, 1767225600123),
        ("1767225600", 1767225600000),
    ],
)
def test_times(value: Any, expected: int) -> None:
    assert millis_of(value) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", None),
        ('<a>; rel="prev"', None),
        ('<a?x=1,2>; rel="next"', "a?x=1,2"),
        ("<a>; rel=prev, <b>; rel=next", "b"),
        ('<a>; rel="prev"; title="rel=next", <b>;rel="last next"', "b"),
        ("<a>; REL=Next", "a"),
    ],
)
def test_links(header: str, expected: str | None) -> None:
    assert next_link(header) == expected
