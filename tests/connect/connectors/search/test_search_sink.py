"""The search sink's requests and what it makes of answers, against a server that answers by script.

test_search_engine.py has the same sink against a real engine.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from penstock.connect import ConfigInvalid, ConnectError, DataError, Schema, SinkTaskTest, Struct
from penstock.connect.connectors.http.delivery.redelivery import Rejected
from penstock.connect.connectors.search import SearchSinkTask
from penstock.connect.data.schema import STRING
from recording_http_server import CUT, Answer, Received, RecordingServer, json_answer, recording_server

TOLERANT = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "dead"}
MALFORMED = {"type": "mapper_parsing_exception", "reason": "failed to parse"}


class Engine:
    """Answers bulk requests: each document by the next status of the script, then by 201."""

    def __init__(self, server: RecordingServer) -> None:
        self.server = server
        self.script: list[int | Answer] = []
        self.bulks: list[list[Any]] = []
        server.answer = self.answer

    def answer(self, received: Received) -> Answer:
        if received.path != "/_bulk":
            return json_answer({}, 404 if received.method == "GET" else 200)
        if self.script and isinstance(self.script[0], Answer):
            return self.script.pop(0)  # type: ignore[return-value]
        lines = [json.loads(line) for line in received.body.splitlines()]
        self.bulks.append(lines)
        items = []
        for line in lines:
            if line.keys() & {"index", "create", "update", "delete"}:
                status = self.script.pop(0) if self.script else 201
                error = {} if status == 201 else {"error": MALFORMED}
                items.append({next(iter(line)): {"status": status, **error}})
        return json_answer({"items": items})


@pytest.fixture
def engine() -> Iterator[Engine]:
    with recording_server() as server:
        yield Engine(server)


def sink(engine: Engine, **more: str) -> SinkTaskTest:
    settings = {"connection_url": engine.server.url, "retry_backoff_ms": "0", "max_in_flight_requests": "1"}
    settings |= more
    return SinkTaskTest(SearchSinkTask(), {name.replace("_", "."): value for name, value in settings.items()})


def put(test: SinkTaskTest, values: Mapping[Any, Any]) -> None:
    for key, value in values.items():
        test.add("Orders", value, key=key)
    test.step()


def test_a_version_is_an_offset(engine: Engine) -> None:
    user = {"connection_username": "u", "connection_password": "p:w"}
    with sink(engine, behavior_on_null_values="delete", **user) as test:
        put(test, {"a": {"n": 1}, 7: {"n": 2}, "b": None})
    version = {"version_type": "external"}
    assert engine.bulks == [
        [
            {"index": {"_index": "orders", "_id": "a", "version": 0, **version}},
            {"n": 1},
            {"index": {"_index": "orders", "_id": "7", "version": 1, **version}},
            {"n": 2},
            {"delete": {"_index": "orders", "_id": "b", "version": 2, **version}},
        ]
    ]
    assert {each.headers["authorization"] for each in engine.server.received} == {"Basic dTpwOnc="}
    assert engine.server.received[-1].headers["content-type"] == "application/x-ndjson"


def test_batches_have_limits(engine: Engine) -> None:
    for limit in ({"batch_size": "2"}, {"bulk_size_bytes": "200"}):
        engine.bulks.clear()
        with sink(engine, **limit) as test:
            put(test, {f"k{number}": {"n": number} for number in range(5)})
        assert [len(each) // 2 for each in engine.bulks] == [2, 2, 1]


@pytest.mark.parametrize("write_method", ["insert", "upsert"])
def test_documents_that_were_not_taken_are_sent_again(engine: Engine, write_method: str) -> None:
    engine.script = [201, 429, 201, 201]
    with sink(engine, write_method=write_method) as test:
        test.add("orders", {"n": 0}, key="a")
        test.add("orders", {"n": 1}, key="b")
        test.add("orders", {"n": 2}, key="b")
        test.add("orders", {"n": 3}, key="c")
        test.step()
        assert test.must_redeliver
        test.step()
    numbers = [(each.get("doc") or each)["n"] for each in engine.bulks[1][1::2]]
    assert numbers == ([1, 2] if write_method == "upsert" else [1])


@pytest.mark.parametrize(
    ("more", "last", "expected"),
    [
        ({"write_method": "upsert", "behavior_on_null_values": "delete"}, None, "delete"),
        ({"key_ignore": "true", "key_ignore_id_strategy": "record.key"}, {"n": 2}, "index"),
    ],
)
def test_documents_without_versions_stay_in_order(
    engine: Engine, more: Mapping[str, str], last: Any, expected: str
) -> None:
    engine.script = [429, 201]
    with sink(engine, **more) as test:
        test.add("orders", {"n": 1}, key="a")
        test.add("orders", last, key="a")
        test.step()
        assert test.must_redeliver
        test.step()
    actions = [next(iter(each)) for each in engine.bulks[1] if "n" not in each and "doc" not in each]
    assert len(actions) == 2
    assert actions[-1] == expected


def test_an_update_that_others_disturb_is_repeated(engine: Engine) -> None:
    engine.script = [409]
    with sink(engine, write_method="upsert") as test:
        put(test, {"a": {"n": 1}})
        assert test.must_redeliver
        test.step()
    assert len(engine.bulks) == 2


def test_lanes_that_fail_together_try_the_next_node_once(engine: Engine) -> None:
    together = threading.Barrier(2, timeout=30)

    def cut(received: Received) -> Answer:
        if received.path == "/_bulk":
            together.wait()
            return CUT
        return json_answer({})

    with recording_server(cut) as dying:
        urls = f"{dying.url},{engine.server.url}"
        with sink(engine, connection_url=urls, max_in_flight_requests="2") as test:
            put(test, {each: {"n": 1} for each in range(10)})
            assert test.must_redeliver
            test.step()
            assert not test.must_redeliver
        assert len(dying.received) == 3  # the mapping, and one request of each lane


@pytest.mark.parametrize("failure", [Answer(503), Answer(429), CUT])
def test_an_engine_that_does_not_answer_is_asked_again(engine: Engine, failure: Answer) -> None:
    engine.script = [failure, failure]
    with sink(engine, max_retries="2") as test:
        put(test, {"a": {"n": 1}})
        test.step()
        test.step()
        assert not test.must_redeliver
        engine.script = [failure] * 3
        put(test, {"b": {"n": 2}})
        test.step()
        with pytest.raises(ConnectError, match="Failed after 2 retries"):
            test.step()


def test_other_nodes_are_asked_if_one_is_gone(engine: Engine) -> None:
    urls = f"http://127.0.0.1:1,{engine.server.url}/"
    with sink(engine, connection_url=urls) as test:
        put(test, {"a": {"n": 1}})
        assert test.must_redeliver
        test.step()
        assert not test.must_redeliver
    assert len(engine.bulks) == 1


@pytest.mark.parametrize("script", [[Answer(401)], [Answer(403)], [404], [403]])
def test_what_no_document_is_to_blame_for_fails_the_task(
    engine: Engine, script: Sequence[int | Answer]
) -> None:
    engine.script = [*script]
    with (
        sink(engine, behavior_on_malformed_documents="ignore", **TOLERANT) as test,
        pytest.raises(ConnectError),
    ):
        put(test, {"a": {"n": 1}})


def test_a_request_that_is_refused_as_a_whole_is_halved(engine: Engine) -> None:
    engine.script = [Answer(413), 201, 201, Answer(413), 201, Answer(413)]
    with sink(engine, behavior_on_malformed_documents="report", **TOLERANT) as test:
        put(test, {key: {"key": key} for key in "abcd"})
        assert [each.value for each in test.failed] == [{"key": "d"}]
        assert isinstance(test.failed[0].error, Rejected)


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("a", "text", "the record's value is a str, expected a struct or a map"),
        ("a", {1: 2}, "not all texts"),
        (None, {"n": 1}, "the record has no key"),
        ({"id": 1}, {"n": 1}, "a dict as key"),
        ("k" * 513, {"n": 1}, "has not from 1 to 512 bytes"),
        ("a", None, "the record has no value"),
    ],
)
def test_records_that_are_no_documents(engine: Engine, key: Any, value: Any, error: str) -> None:
    with (
        sink(engine, behavior_on_null_values="fail") as test,
        pytest.raises(DataError, match=error),
    ):
        test.put("orders", value, key=key)
    with sink(engine, behavior_on_null_values="fail", **TOLERANT) as test:
        test.put("orders", value, key=key)
        assert len(test.failed) == 1
    with sink(engine, behavior_on_null_values="fail", drop_invalid_message="true") as test:
        test.put("orders", value, key=key)
        assert not test.failed


def test_maps_without_schema_are_always_objects(engine: Engine) -> None:
    schema = Schema.struct({"m": Schema.map(STRING, STRING)})
    with sink(engine, compact_map_entries="false") as test:
        test.put("orders", {"m": {"x": "y"}}, key="a")
        test.put("orders", Struct(schema, {"m": {"x": "y"}}), key="a", schema=schema)
    documents = [each[1] for each in engine.bulks]
    assert documents == [{"m": {"x": "y"}}, {"m": [{"key": "x", "value": "y"}]}]


def test_records_without_values_are_ignored_by_default(engine: Engine) -> None:
    with sink(engine) as test:
        put(test, {"a": None, "b": {"n": 1}})
    assert len(engine.bulks[0]) == 2


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"connection.url": ""},
        {"connection.url": "localhost:9200"},
        {"connection.url": "http://a", "topic.index.map": "orders"},
        {"connection.url": "http://a", "write.method": "replace"},
        {"connection.url": "http://a", "behavior.on.null.values": "warn"},
        {"connection.url": "http://a", "batch.size": "0"},
    ],
)
def test_wrong_configurations(config: Mapping[str, str]) -> None:
    with pytest.raises(ConfigInvalid), SinkTaskTest(SearchSinkTask(), config):
        pass
