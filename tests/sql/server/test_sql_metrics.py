"""`/metrics` of a SQL server."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from sql_service import Service, served, unique

from penstock.sql.engine.running.failure_log import FailureLog
from penstock.sql.engine.running.host import QueryFailure
from penstock.testing import Cluster
from waiting import wait_until


def samples(service: Service) -> dict[str, float]:
    """The samples of a scrape, by name and labels."""
    answer = service.ask("GET", "/metrics")
    assert answer.status == 200, answer.text
    assert (answer.type or "").startswith("text/plain")
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_queries_records_rows_and_requests_are_counted(penstock_cluster: Cluster) -> None:
    with served(penstock_cluster.bootstrap_servers) as service:
        source, result = service.made_stream(), unique("R")
        earliest = {"auto.offset.reset": "earliest"}
        created = service.run(
            f"CREATE STREAM {result} AS SELECT * FROM {source};", streamsProperties=earliest
        )
        query_id = created[0]["commandStatus"]["queryId"]
        service.run("".join(f"INSERT INTO {source} VALUES ({n}, 'n{n}');" for n in range(3)))
        written = f"penstock_sql_records_written_total {query_id} {result}"
        wait_until(lambda: samples(service).get(written) == 3)
        assert len(service.rows(f"SELECT * FROM {result} EMIT CHANGES LIMIT 2;")) == 2
        assert service.ask("POST", "/ksql", {"ksql": "SHOW NOTHING;"}).status == 400
        assert service.ask("GET", "/nowhere").status == 404
        assert service.ask("GET", "/status/stream/a/create").status == 404
        body = {"sql": f"SELECT * FROM {result} EMIT CHANGES;", "properties": earliest}
        with service.stream("/query-stream", body):
            streaming = samples(service)
        found = samples(service)
        service.run(f"PAUSE {query_id};")
        paused = samples(service)

    assert found[f"penstock_sql_records_read_total {query_id} {source}"] == 3
    assert found["penstock_sql_queries RUNNING"] == 1
    assert found["penstock_sql_queries ERROR"] == 0
    assert (paused["penstock_sql_queries RUNNING"], paused["penstock_sql_queries PAUSED"]) == (0, 1)
    assert found[f"penstock_sql_query_failures_total {query_id}"] == 0
    assert found["penstock_sql_rows_inserted_total"] == 3
    assert found["penstock_sql_rows_read_total"] >= 2
    assert streaming["penstock_sql_push_queries"] == 1
    assert streaming["penstock_http_requests_open"] >= 2, "the push query and the scrape"
    assert found["penstock_http_requests_total 400 /ksql POST"] == 1
    assert found["penstock_http_requests_total 200 /query-stream POST"] == 2
    assert found["penstock_http_requests_total 404 /status/{command_id} GET"] == 1
    assert found["penstock_http_requests_total 404 other GET"] == 1


def test_the_batches_of_the_host_are_among_them(service: Service) -> None:
    service.server.engine.host_metrics.started("id", "run", "host")
    assert samples(service)["penstock_query_active host"] == 1


def test_failures_of_queries_are_counted_once(service: Service) -> None:
    counted = FailureLog(service.server.engine.config)
    counted.write_new({"A": (QueryFailure(5, "first"), QueryFailure(6, "second")), "B": ()})
    counted.write_new({"A": (QueryFailure(6, "second"), QueryFailure(7, "third")), "B": ()})
    assert counted.counts == {"A": 3}
    counted.write_new({"B": (QueryFailure(8, "fourth"),)})
    assert counted.counts == {"B": 1}, "A was terminated"
