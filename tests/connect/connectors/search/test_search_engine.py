"""The search sink against a real node of OpenSearch and of Elasticsearch."""

import datetime
import json
import os
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from penstock.connect import ConnectError, Schema, SinkTaskTest, Struct
from penstock.connect.connectors.http.delivery.redelivery import Rejected
from penstock.connect.connectors.search import SearchSinkTask
from penstock.connect.data import logical
from penstock.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    OPTIONAL_STRING,
    STRING,
)
from search_engines import VERSIONS, SearchEngine, running_engine

pytestmark = pytest.mark.long
TOLERANT = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "dead"}


@pytest.fixture(scope="module", params=VERSIONS)
def engine(request: pytest.FixtureRequest) -> Iterator[SearchEngine]:
    with running_engine(request.param) as engine:
        yield engine


def sink(engine: SearchEngine, **more: str) -> SinkTaskTest:
    settings = {name.replace("_", "."): value for name, value in more.items()}
    patient = {"read.timeout.ms": "30000", "retry.backoff.ms": "1"}
    return SinkTaskTest(SearchSinkTask(), {"connection.url": engine.url, **patient, **settings})


def test_documents_follow_the_records_of_their_keys(engine: SearchEngine) -> None:
    with sink(engine, behavior_on_null_values="delete") as test:
        for key, value in (("a", {"n": 1}), ("b", {"n": 2}), ("a", {"n": 3}), ("b", None), ("c", {"n": 4})):
            test.add("Orders", value, key=key)
        test.step()
        assert engine.documents("orders") == {"a": {"n": 3}, "c": {"n": 4}}
        test.restart(SearchSinkTask())  # nothing was committed, so that all records come again
        test.step()
    assert engine.documents("orders") == {"a": {"n": 3}, "c": {"n": 4}}
    found = engine.ask("GET", "/orders/_doc/a")
    assert found["_version"] == 2  # the offset


def test_an_older_record_does_not_replace_a_later_one(engine: SearchEngine) -> None:
    with sink(engine, behavior_on_version_conflict="report", **TOLERANT) as test:
        test.add("versions", {"n": 0}, key="a")
        test.add("versions", {"n": 1}, key="a")
        test.step()
        test.restart(SearchSinkTask())
        test.step()
        assert [each.value for each in test.failed] == [{"n": 0}, {"n": 1}]
    assert engine.documents("versions") == {"a": {"n": 1}}


def test_ids_without_keys(engine: SearchEngine) -> None:
    with sink(engine, key_ignore="true") as test:
        test.put("lines", {"n": 1})
        test.put("lines", {"n": 2})
        test.restart(SearchSinkTask())
        test.step()
    assert engine.documents("lines") == {"lines+0+0": {"n": 1}, "lines+0+1": {"n": 2}}
    with sink(engine, topic_key_ignore="free", key_ignore_id_strategy="none") as test:
        test.put("free", {"n": 1})
        test.put("free", {"n": 2})
    assert sorted(each["n"] for each in engine.documents("free").values()) == [1, 2]


def test_upserts_change_fields(engine: SearchEngine) -> None:
    with sink(engine, write_method="upsert") as test:
        test.add("stock", {"name": "tea", "left": 5}, key=1)
        test.add("stock", {"left": 4}, key=1)
        test.step()
    assert engine.documents("stock") == {"1": {"name": "tea", "left": 4}}


ALL_TYPES = Schema.struct(
    {
        "int8": INT8,
        "int16": INT16,
        "int32": Schema(INT32.type, default=7),
        "int64": INT64,
        "float32": FLOAT32,
        "float64": FLOAT64,
        "boolean": BOOLEAN,
        "string": STRING,
        "bytes": BYTES,
        "decimal": logical.decimal_schema(2),
        "date": logical.date_schema(),
        "time": logical.time_schema(),
        "timestamp": logical.timestamp_schema(),
        "array": Schema.array(INT32),
        "map": Schema.map(STRING, INT32),
        "pairs": Schema.map(INT32, STRING),
        "inner": Schema.struct({"note": OPTIONAL_STRING}),
    }
)
MOMENT = datetime.datetime(2026, 2, 3, 4, 5, 6, 789_000, datetime.UTC)


def test_mappings_come_from_schemas(engine: SearchEngine) -> None:
    value: dict[str, Any] = {
        "int8": 1,
        "int16": 2,
        "int64": 4,
        "float32": 1.5,
        "float64": 2.5,
        "boolean": True,
        "string": "text",
        "bytes": b"\x00\xff",
        "decimal": Decimal("9.50"),
        "date": datetime.date(2026, 2, 3),
        "time": datetime.time(4, 5, 6),
        "timestamp": MOMENT,
        "array": [1, 2],
        "map": {"a": 1},
        "pairs": {1: "x"},
        "inner": Struct(Schema.struct({"note": OPTIONAL_STRING}), {"note": "n"}),
    }
    with sink(engine) as test:
        test.put("types", Struct(ALL_TYPES, value), schema=ALL_TYPES, key="k")
    assert engine.documents("types") == {
        "k": {
            **value,
            "int32": 7,
            "bytes": "AP8=",
            "decimal": 9.5,
            "date": "2026-02-03",
            "time": (4 * 60 + 5) * 60_000 + 6000,
            "timestamp": round(MOMENT.timestamp() * 1000),
            "pairs": [{"key": 1, "value": "x"}],
            "inner": {"note": "n"},
        }
    }
    found = engine.ask("GET", "/types/_mapping")["types"]["mappings"]["properties"]
    assert {name: each.get("type") for name, each in found.items()} == {
        "int8": "byte",
        "int16": "short",
        "int32": "integer",
        "int64": "long",
        "float32": "float",
        "float64": "double",
        "boolean": "boolean",
        "string": "text",
        "bytes": "binary",
        "decimal": "double",
        "date": "date",
        "time": "date",
        "timestamp": "date",
        "array": "integer",
        "map": None,
        "pairs": "nested",
        "inner": None,
    }
    assert found["int32"]["null_value"] == 7
    day = {"query": {"range": {"date": {"gte": "2026-02-03", "lt": "2026-02-04"}}}}
    assert engine.ask("POST", "/types/_search", day)["hits"]["total"]["value"] == 1


def test_an_index_without_a_mapping_gets_one_and_others_keep_theirs(engine: SearchEngine) -> None:
    schema = Schema.struct({"name": STRING})
    keyword = {"properties": {"name": {"type": "keyword"}}}
    engine.ask("PUT", "/bare", {})
    engine.ask("PUT", "/mapped", {"mappings": keyword})
    with sink(engine, key_ignore="true") as test:
        for topic in ("bare", "mapped"):
            test.put(topic, Struct(schema, {"name": "x"}), schema=schema)
    assert engine.ask("GET", "/bare/_mapping")["bare"]["mappings"]["properties"]["name"]["type"] == "text"
    assert engine.ask("GET", "/mapped/_mapping")["mapped"]["mappings"] == keyword


def test_malformed_documents(engine: SearchEngine) -> None:
    engine.ask("PUT", "/numbers", {"mappings": {"properties": {"n": {"type": "integer"}}}})
    values = [{"n": 1}, {"n": "no number"}, {"n": 3}]
    for behavior in ("ignore", "warn", "report"):
        with sink(engine, behavior_on_malformed_documents=behavior, **TOLERANT) as test:
            for number, value in enumerate(values):
                test.add("numbers", value, key=f"{behavior}{number}")
            test.step()
            assert not test.must_redeliver
            assert [each.value for each in test.failed] == (values[1:2] if behavior == "report" else [])
        assert {f"{behavior}0", f"{behavior}2"} <= engine.documents("numbers").keys()
    with sink(engine) as test, pytest.raises(ConnectError, match="mapper_parsing_exception"):
        test.put("numbers", values[1], key="x")
    with sink(engine, behavior_on_malformed_documents="report") as test, pytest.raises(Rejected):
        test.put("numbers", values[1], key="x")


def test_records_are_appended_to_data_streams(engine: SearchEngine) -> None:
    if engine.name == "Elasticsearch":
        pytest.skip("Elasticsearch has data streams in a module that is not on Maven Central")
    with sink(engine, data_stream_enabled="true", data_stream_prefix="logs") as test:
        test.add("app", {"message": "one"}, timestamp_ms=1_700_000_000_000)
        test.add("app", {"message": "two", "@timestamp": "2026-01-01T00:00:00Z"})
        test.step()
        test.restart(SearchSinkTask())
        test.step()
    assert engine.documents("logs-app") == {
        "app+0+0": {"message": "one", "@timestamp": 1_700_000_000_000},
        "app+0+1": {"message": "two", "@timestamp": "2026-01-01T00:00:00Z"},
    }
    (stream,) = engine.ask("GET", "/_data_stream/logs-app")["data_streams"]
    assert stream["timestamp_field"]["name"] == "@timestamp"


def test_topics_can_have_other_indices_and_invalid_names_are_errors(engine: SearchEngine) -> None:
    with sink(engine, topic_index_map="a:alpha,b:beta") as test:
        test.put("a", {"n": 1}, key="x")
        test.put("b", {"n": 2}, key="x")
    assert engine.documents("alpha") == {"x": {"n": 1}}
    assert engine.documents("beta") == {"x": {"n": 2}}
    with sink(engine) as test, pytest.raises(ConnectError, match="invalid_index_name_exception"):
        test.put("_wrong", {"n": 1}, key="x")


def test_kills_of_the_engine_and_the_task_lose_and_repeat_nothing() -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    latest: dict[str, dict[str, int] | None] = {}
    with (
        running_engine() as engine,
        sink(engine, behavior_on_null_values="delete", max_retries="1000", batch_size="20") as test,
    ):
        for number in range(600):
            key = f"k{chance.randrange(40)}"
            latest[key] = None if chance.random() < 0.2 else {"n": number}
            test.add("storm", latest[key], key=key)
            if number % 60 == 59:
                engine.kill()
                test.step()
                assert test.must_redeliver
                engine.start()
                if chance.random() < 0.5:
                    test.restart(SearchSinkTask())
                    test.step()
                while test.must_redeliver:
                    test.step()
                if chance.random() < 0.3:
                    test.commit()
        expected = {key: value for key, value in latest.items() if value is not None}
        assert json.dumps(engine.documents("storm"), sort_keys=True) == json.dumps(expected, sort_keys=True)
