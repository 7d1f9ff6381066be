"""Failures behind statements, as clients of the REST API see them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer
from sql_service import Service, unique

from waiting import wait_until


def test_a_query_that_fails_is_told_over_http_and_leaves_others_alone(service: Service) -> None:
    source = service.made_stream()
    strict, other = unique("STRICT"), unique("OTHER")
    flag = {"ksql.fail.on.deserialization.error": "true"}
    service.run(f"CREATE STREAM {strict} AS SELECT * FROM {source};", streamsProperties=flag)
    service.run(f"CREATE STREAM {other} AS SELECT * FROM {source};")
    producer = Producer({"bootstrap.servers": service.bootstrap_servers})
    producer.produce(source, b"no json", b"1")
    assert producer.flush(20) == 0
    service.run(f"INSERT INTO {source} VALUES (2, 'b');")

    def described() -> dict[str, dict[str, Any]]:
        [answer] = service.run("SHOW QUERIES EXTENDED;")
        return {each["sinks"][0]: each for each in answer["queryDescriptions"] if each["sinks"]}

    wait_until(lambda: described()[strict]["state"] == "ERROR")
    wait_until(lambda: service.rows(f"SELECT name FROM {other};") == [["b"]])
    failed, going = described()[strict], described()[other]
    [error] = failed["queryErrors"]
    assert set(error) == {"timestamp", "errorMessage", "type"}
    assert f"{source}-0 at offset 0" in error["errorMessage"]
    assert failed["overriddenProperties"] == flag
    assert (going["state"], going["queryErrors"]) == ("RUNNING", [])
    [explained] = service.run(f"EXPLAIN {failed['id']};")
    assert explained["queryDescription"]["queryErrors"] == [error]
    [read] = service.run(f"DESCRIBE {source} EXTENDED;")
    states = {each["id"]: each["state"] for each in read["sourceDescription"]["readQueries"]}
    assert states == {failed["id"]: "ERROR", going["id"]: "RUNNING"}
    service.run(f"TERMINATE {failed['id']}; DROP STREAM {strict} DELETE TOPIC;")
    assert strict not in described()
