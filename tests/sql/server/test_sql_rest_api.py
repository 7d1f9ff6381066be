"""Every endpoint of ksqlDB's REST API, over HTTP, on a real node."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from sql_service import DELIMITED, KSQL_V1, Service, served, unique

from penstock.testing import Cluster
from waiting import wait_until

EARLIEST = {"auto.offset.reset": "earliest"}


def test_what_the_server_is(service: Service) -> None:
    info = service.ask("GET", "/info").body["KsqlServerInfo"]
    assert info["version"] == "0.29.0"
    assert info["kafkaClusterId"]
    assert info["ksqlServiceId"].endswith("_")
    assert info["serverStatus"] == "RUNNING"
    health = service.ask("GET", "/healthcheck").body
    assert health["isHealthy"] is True
    assert health["details"]["kafka"] == {"isHealthy": True}
    [(host, status)] = service.ask("GET", "/clusterStatus").body["clusterStatus"].items()
    assert host == "localhost:8088"
    assert status["hostAlive"] is True
    assert status["lastStatusUpdateMs"] > 0
    scope = service.ask("GET", "/v1/metadata/id").body["scope"]
    clusters = {"kafka-cluster": info["kafkaClusterId"], "ksql-cluster": info["ksqlServiceId"]}
    assert scope == {"path": [], "clusters": clusters}
    assert service.ask("GET", "/v1/metadata").body["version"] == info["version"]
    assert service.ask("GET", "/chc/ready").status == 200
    home = httpx.get(service.url, follow_redirects=True)
    assert home.json()["KsqlServerInfo"] == info


def test_statements_are_answered_in_their_order(service: Service) -> None:
    name = unique("S")
    columns, topic = "(id INT KEY, v STRING)", f"kafka_topic='{name}', partitions=1, format='json'"
    text = f"CREATE STREAM {name} {columns} WITH ({topic}); SHOW STREAMS; DESCRIBE {name};"
    created, listed, described = service.run(text)
    assert created["@type"] == "currentStatus"
    assert created["commandId"] == f"stream/`{name}`/create"
    assert created["commandStatus"]["status"] == "SUCCESS"
    assert created["statementText"].startswith("CREATE STREAM")
    assert isinstance(created["commandSequenceNumber"], int)
    assert listed["@type"] == "streams"
    own = next(each for each in listed["streams"] if each["name"] == name)
    assert own["topic"] == name
    assert own["isWindowed"] is False
    fields = described["sourceDescription"]["fields"]
    assert [(each["name"], each["schema"]["type"], each.get("type")) for each in fields] == [
        ("ID", "INTEGER", "KEY"),
        ("V", "STRING", None),
    ]


def test_the_status_of_a_command_can_be_asked(service: Service) -> None:
    name = service.made_stream()
    status = service.ask("GET", f"/status/stream/{name}/create").body
    assert status["status"] == "SUCCESS"
    assert status["message"]
    quoted = service.ask("GET", f"/status/stream/%60{name}%60/create")
    assert quoted.body == status
    statuses = service.ask("GET", "/status").body["commandStatuses"]
    assert statuses[f"stream/{name}/create"] == "SUCCESS"
    unknown = service.ask("GET", "/status/stream/NOTHING/create")
    assert (unknown.status, unknown.body["error_code"]) == (404, 40400)


def test_a_later_statement_waits_for_an_earlier_one(service: Service) -> None:
    name = unique("S")
    create = f"CREATE STREAM {name} (v STRING) WITH (kafka_topic='{name}', partitions=1, format='json');"
    [created] = service.run(create)
    sequence = created["commandSequenceNumber"]
    assert service.run("SHOW STREAMS;", commandSequenceNumber=sequence)


def test_a_wrong_statement_is_told_with_its_text(service: Service) -> None:
    answer = service.ask("POST", "/ksql", {"ksql": "SHOW TOPICS; CREATE STREEM x (a INT);"})
    assert answer.status == 400
    told = answer.body
    assert told["@type"] == "statement_error"
    assert told["error_code"] == 40001
    assert "STREEM" in told["message"]
    assert "STREEM" in told["statementText"]
    assert told["entities"] == []


def test_what_was_done_before_an_error_is_told_with_it(service: Service) -> None:
    name = service.made_stream()
    text = f"SHOW STREAMS; INSERT INTO {name} (id, name) VALUES (CAST('x' AS INT), 'n');"
    told = service.ask("POST", "/ksql", {"ksql": text}).body
    assert told["@type"] == "statement_error"
    assert [each["@type"] for each in told["entities"]] == ["streams"]


def test_a_query_is_no_statement(service: Service) -> None:
    answer = service.ask("POST", "/ksql", {"ksql": "SELECT * FROM x EMIT CHANGES;"})
    assert (answer.status, answer.body["error_code"]) == (400, 40002)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("{", "Invalid JSON"),
        ("[1]", "found an array, expected an object"),
        ("{}", '"ksql" field must be populated'),
        ({"ksql": " "}, '"ksql" field must be populated'),
        ({"ksql": 1}, '"ksql": found a number, expected a string'),
        ({"ksql": "SHOW TOPICS;", "streamsProperties": 1}, '"streamsProperties": found a number'),
        ({"ksql": "SHOW TOPICS;", "commandSequenceNumber": "x"}, '"commandSequenceNumber": found a string'),
    ],
)
def test_a_body_that_says_nothing_is_refused_by_name(service: Service, body: Any, found: str) -> None:
    answer = service.ask("POST", "/ksql", body)
    assert (answer.status, answer.body["@type"], answer.body["error_code"]) == (400, "generic_error", 40000)
    assert found in answer.body["message"]


def test_paths_and_methods_that_are_not_there(service: Service) -> None:
    missing = service.ask("GET", "/nothing")
    assert (missing.status, missing.body["error_code"]) == (404, 40400)
    assert "/nothing" in missing.body["message"]
    wrong = service.ask("GET", "/ksql")
    assert (wrong.status, wrong.body["error_code"]) == (405, 40500)


@pytest.mark.parametrize(
    ("accept", "answered"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        (KSQL_V1, KSQL_V1),
        (f"text/html, {KSQL_V1};q=0.5, application/json;q=0.4", KSQL_V1),
        ("application/*;q=0.1", "application/json"),
    ],
)
def test_an_answer_has_the_type_that_is_asked_for(service: Service, accept: str, answered: str) -> None:
    answer = service.ask("POST", "/ksql", {"ksql": "SHOW TOPICS;"}, Accept=accept, Content_Type=KSQL_V1)
    assert (answer.status, answer.type) == (200, answered)


def test_a_type_that_nothing_has_is_refused(service: Service) -> None:
    answer = service.ask("POST", "/ksql", {"ksql": "SHOW TOPICS;"}, Accept="text/html")
    assert (answer.status, answer.body["error_code"]) == (406, 40600)


def test_properties_hold_for_their_request_alone(service: Service) -> None:
    name = service.made_stream(rows=3)
    select = f"SELECT id FROM {name} EMIT CHANGES LIMIT 2;"
    assert service.rows(select, properties=EARLIEST) == [[0], [1]]
    assert service.rows(select, properties={"ksql.streams.auto.offset.reset": "earliest"}) == [[0], [1]]
    refused = service.ask("POST", "/query-stream", {"sql": select, "properties": {"no.such": "x"}})
    assert (refused.status, refused.body["error_code"]) == (400, 40000)
    assert "no.such" in refused.body["message"]


def test_variables_hold_for_their_request_alone(service: Service) -> None:
    name = service.made_stream(rows=2)
    variables = {"source": name, "least": 1}
    select = "SELECT name FROM ${source} WHERE id >= ${least} EMIT CHANGES LIMIT 1;"
    assert service.rows(select, sessionVariables=variables) == [["n1"]]
    described = service.run("DESCRIBE ${source};", sessionVariables=variables)
    assert described[0]["sourceDescription"]["name"] == name
    refused = service.ask("POST", "/ksql", {"ksql": "DESCRIBE ${source};"})
    assert (refused.status, refused.body["error_code"]) == (400, 40001)


def test_which_properties_may_be_set(service: Service) -> None:
    assert service.ask("GET", "/is_valid_property/auto.offset.reset").body is True
    unknown = service.ask("GET", "/is_valid_property/no.such.property")
    assert (unknown.status, unknown.body["error_code"]) == (400, 40000)
    assert "no.such.property" in unknown.body["message"]


def test_a_service_ends_for_good(penstock_cluster: Cluster) -> None:
    with served(penstock_cluster.bootstrap_servers) as service:
        stream, gone, kept = service.made_stream(rows=1), unique("GONE"), unique("KEPT")
        for name in (gone, kept):
            service.run(f"CREATE STREAM {name} AS SELECT * FROM {stream};")
        refused = service.ask("POST", "/ksql/terminate", {"deleteTopicList": ["("]})
        assert (refused.status, refused.body["error_code"]) == (400, 40000)
        asked = {"deleteTopicList": ["GONE.*", stream]}
        [told] = service.ask("POST", "/ksql/terminate", asked, Content_Type=KSQL_V1).body
        assert told["commandStatus"]["status"] == "SUCCESS"
        streams, queries, topics = service.run("SHOW STREAMS; SHOW QUERIES; SHOW ALL TOPICS;")
        assert (streams["streams"], queries["queries"]) == ([], [])
        names = {each["name"] for each in topics["topics"]}
        assert gone not in names
        assert {stream, kept} <= names
        assert service.server.engine.config.command_topic not in names
        after = service.ask(
            "POST", "/ksql", {"ksql": f"CREATE STREAM s (v INT) WITH (kafka_topic='{kept}', format='json');"}
        )
        assert after.status == 500
        assert "terminated" in after.body["message"]


# Rows


def test_lines_of_rows_are_the_form_of_query_stream(service: Service) -> None:
    name = service.made_stream(rows=2)
    asked = {"sql": f"SELECT * FROM {name} EMIT CHANGES LIMIT 2;", "properties": EARLIEST}
    answer = service.ask("POST", "/query-stream", asked)
    assert (answer.status, answer.type) == (200, DELIMITED)
    header, *rows = map(json.loads, answer.text.splitlines())
    assert header["columnNames"] == ["ID", "NAME"]
    assert header["columnTypes"] == ["INTEGER", "STRING"]
    assert header["queryId"]
    assert rows == [[0, "n0"], [1, "n1"]]


def test_query_stream_gives_one_array_as_well(service: Service) -> None:
    name = service.made_stream(rows=2)
    asked = {"sql": f"SELECT name FROM {name} EMIT CHANGES LIMIT 2;", "properties": EARLIEST}
    answer = service.ask("POST", "/query-stream", asked, Accept="application/json")
    assert answer.type == "application/json"
    assert answer.body[0]["columnNames"] == ["NAME"]
    assert answer.body[1:] == [["n0"], ["n1"]]


def test_query_tells_what_each_element_is(service: Service) -> None:
    name = service.made_stream(rows=2)
    asked = {"ksql": f"SELECT * FROM {name} EMIT CHANGES LIMIT 2;", "streamsProperties": EARLIEST}
    answer = service.ask("POST", "/query", asked)
    assert answer.type == KSQL_V1
    header, *rows, last = answer.body
    assert header["header"]["schema"] == "`ID` INTEGER, `NAME` STRING"
    assert [each["row"]["columns"] for each in rows] == [[0, "n0"], [1, "n1"]]
    assert last == {"finalMessage": "Limit Reached"}


def test_a_pull_query_ends_and_tells_its_keys(service: Service) -> None:
    stream, table = service.made_stream(rows=3), unique("T")
    service.run(
        f"CREATE TABLE {table} AS SELECT id, COUNT(*) AS n FROM {stream} GROUP BY id;",
        streamsProperties=EARLIEST,
    )
    select = f"SELECT id, n FROM {table} WHERE id = 1;"
    wait_until(lambda: service.rows(select) == [[1, 1]])
    header, row = service.ask("POST", "/query", {"ksql": select}).body
    assert header["header"]["schema"] == "`ID` INTEGER KEY, `N` BIGINT"
    assert row["row"]["columns"] == [1, 1]
    [header] = service.ask("POST", "/query", {"ksql": f"SELECT * FROM {table} WHERE id = 99;"}).body
    assert header["header"]["queryId"]


def test_what_a_pull_query_is_refused_for_is_its_status(service: Service) -> None:
    stream = service.made_stream()
    for path, field in (("/query", "ksql"), ("/query-stream", "sql")):
        answer = service.ask("POST", path, {field: f"SELECT nothing FROM {stream};"})
        assert (answer.status, answer.body["@type"], answer.body["error_code"]) == (
            400,
            "statement_error",
            40001,
        )
        assert "NOTHING" in answer.body["message"]
        two = service.ask("POST", path, {field: f"SELECT * FROM {stream}; SELECT * FROM {stream};"})
        assert two.status == 400


def test_rows_of_a_table_that_are_deleted_are_told_as_such(service: Service) -> None:
    name = unique("T")
    service.run(
        f"CREATE TABLE {name} (id INT PRIMARY KEY, v STRING) WITH "
        f"(kafka_topic='{name}', partitions=1, format='json');"
        f"INSERT INTO {name} VALUES (1, 'a'); INSERT INTO {name} (id) VALUES (2);"
    )
    _produce(service, name, b"1", None)
    asked = {"ksql": f"SELECT * FROM {name} EMIT CHANGES LIMIT 3;", "streamsProperties": EARLIEST}
    rows = [each["row"] for each in service.ask("POST", "/query", asked).body[1:-1]]
    assert rows == [
        {"columns": [1, "a"]},
        {"columns": [2, None]},
        {"columns": [1, None], "tombstone": True},
    ]


def test_each_type_has_its_json(service: Service) -> None:
    columns = (
        "b BOOLEAN, i INT, l BIGINT, d DOUBLE, x DECIMAL(6, 2), s STRING, y BYTES, t TIME, da DATE, "
        "ts TIMESTAMP, a ARRAY<INT>, m MAP<STRING, DOUBLE>, st STRUCT<f INT, g ARRAY<DATE>>"
    )
    name = service.made_stream(columns)
    service.run(
        f"INSERT INTO {name} VALUES (true, 1, 9007199254740993, 1.5, 12.50, 'ü\"', TO_BYTES('ab', 'ascii'), "
        "'10:11:12', '2024-02-29', '2024-02-29T10:11:12.345', ARRAY[1, NULL], MAP('k' := 2.0), "
        "STRUCT(f := 7, g := ARRAY[PARSE_DATE('2024-01-01', 'yyyy-MM-dd')]));"
    )
    asked = {"sql": f"SELECT * FROM {name} EMIT CHANGES LIMIT 1;", "properties": EARLIEST}
    header, row = service.ask("POST", "/query-stream", asked).text.splitlines()
    assert json.loads(header)["columnTypes"] == [
        *("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL(6, 2)", "STRING", "BYTES", "TIME", "DATE"),
        *("TIMESTAMP", "ARRAY<INTEGER>", "MAP<STRING, DOUBLE>", "STRUCT<F INTEGER, G ARRAY<DATE>>"),
    ]
    assert row == (
        '[true,1,9007199254740993,1.5,12.50,"ü\\"","YWI=","10:11:12","2024-02-29",'
        '"2024-02-29T10:11:12.345",[1,null],{"k":2.0},{"F":7,"G":["2024-01-01"]}]'
    )


def test_a_topic_is_printed(service: Service) -> None:
    name = service.made_stream(rows=2)
    asked = {"sql": f"PRINT '{name}' FROM BEGINNING LIMIT 2;"}
    answer = service.ask("POST", "/query-stream", asked)
    assert answer.type == DELIMITED
    assert '"NAME":"n1"' in answer.text
    assert service.ask("POST", "/query-stream", asked, Accept="application/json").status == 406
    older = service.ask("POST", "/query", {"ksql": asked["sql"]}, Accept=KSQL_V1)
    assert '"NAME":"n1"' in older.text
    missing = service.ask("POST", "/query-stream", {"sql": "PRINT nothing_there;"})
    assert missing.status == 400


def _produce(service: Service, topic: str, key: bytes, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": service.bootstrap_servers})
    producer.produce(topic, key=key, value=value)
    assert producer.flush(30) == 0


# Push queries


def _running(service: Service) -> list[str]:
    [found] = service.run("SHOW QUERIES;")
    return [each["id"] for each in found["queries"]]


@pytest.mark.parametrize("path", ["/query", "/query-stream"])
def test_a_push_query_goes_on_until_its_client_is_gone(service: Service, path: str) -> None:
    name = service.made_stream(rows=1)
    text = f"SELECT name FROM {name} EMIT CHANGES;"
    asked = {"ksql": text, "sql": text, "streamsProperties": EARLIEST, "properties": EARLIEST}
    with service.stream(path, asked) as response:
        header = response.readline()
        assert b"n0" in response.readline()
        told = json.loads(header.lstrip(b"[").rstrip(b",\n"))
        query_id = told.get("header", told)["queryId"]
        assert query_id in _running(service)
        service.run(f"INSERT INTO {name} VALUES (1, 'later');")
        assert b"later" in response.readline()
    wait_until(lambda: query_id not in _running(service))


def test_a_push_query_is_closed_by_its_id(service: Service) -> None:
    name = service.made_stream()
    with service.stream("/query-stream", {"sql": f"SELECT * FROM {name} EMIT CHANGES;"}) as response:
        query_id = json.loads(response.readline())["queryId"]
        assert service.ask("POST", "/close-query", {"queryId": query_id}).status == 200
        assert response.read() == b""
    again = service.ask("POST", "/close-query", {"queryId": query_id})
    assert (again.status, again.body["error_code"]) == (400, 40000)
    assert query_id in again.body["message"]
    assert service.ask("POST", "/close-query", {}).status == 400


def test_there_are_only_so_many_push_queries(penstock_cluster: Cluster) -> None:
    with served(penstock_cluster.bootstrap_servers, ksql_max_push_queries="1") as service:
        asked = {"sql": f"SELECT * FROM {service.made_stream()} EMIT CHANGES;"}
        with service.stream("/query-stream", asked) as response:
            response.readline()
            refused = service.ask("POST", "/query-stream", asked)
            assert (refused.status, refused.body["error_code"]) == (400, 40003)
        wait_until(lambda: not _running(service))
        with service.stream("/query-stream", asked) as response:
            assert b"columnNames" in response.readline()


def test_a_server_that_ends_ends_its_queries(penstock_cluster: Cluster) -> None:
    """A client that reads gets the format's regular end; one that doesn't read does not delay the others."""
    with served(penstock_cluster.bootstrap_servers) as service:
        text = f"SELECT * FROM {service.made_stream()} EMIT CHANGES;"
        with service.stream("/query", {"ksql": text}) as reader:
            reader.readline()
            service.server.close()
            assert reader.read() == b'{"finalMessage":"Query Completed"}]\n'


def test_older_clients_hear_that_their_query_has_ended(service: Service) -> None:
    name = service.made_stream()
    with service.stream("/query", {"ksql": f"SELECT * FROM {name} EMIT CHANGES;"}) as response:
        header = json.loads(response.readline().lstrip(b"[").rstrip(b",\n"))
        assert service.ask("POST", "/close-query", {"queryId": header["header"]["queryId"]}).status == 200
        assert response.read() == b'{"finalMessage":"Query Completed"}]\n'


def test_who_reads_slowly_holds_nobody_up(service: Service) -> None:
    name = service.made_stream("id INT KEY, name STRING")
    row = json.dumps({"id": 1, "name": "x" * 10_000})
    lines = "\n".join([json.dumps({"target": name}), *[row] * 2_000])
    assert service.ask("POST", "/inserts-stream", lines).text.count('"ok"') == 2_000
    asked = {"sql": f"SELECT * FROM {name} EMIT CHANGES;", "properties": EARLIEST}
    with service.stream("/query-stream", asked) as response:
        response.readline()
        for _ in range(20):
            assert service.ask("GET", "/info").status == 200
        taken = sum(len(json.loads(response.readline())[1]) for _ in range(2_000))
    assert taken == 2_000 * 10_000


def test_many_push_queries_share_one_connection_of_http2(service: Service) -> None:
    names = [service.made_stream(rows=1) for _ in range(3)]
    with httpx.Client(http1=False, http2=True, timeout=30) as client:
        streams = []
        for name in names:
            body = {"sql": f"SELECT name FROM {name} EMIT CHANGES;", "properties": EARLIEST}
            request = client.build_request("POST", f"{service.url}/query-stream", json=body)
            streams.append(client.send(request, stream=True))
        assert {each.http_version for each in streams} == {"HTTP/2"}
        for name, stream in zip(names, streams, strict=True):
            lines = stream.iter_lines()
            assert json.loads(next(lines))["columnNames"] == ["NAME"]
            assert json.loads(next(lines)) == ["n0"]
            service.run(f"INSERT INTO {name} VALUES (1, 'more');")
            assert json.loads(next(lines)) == ["more"]
        for stream in streams:
            stream.close()
    wait_until(lambda: not any(name in each for name in names for each in _running(service)))


# Inserts


def test_rows_are_acknowledged_in_their_order(service: Service) -> None:
    name = service.made_stream()
    lines = [{"target": name}, {"id": 1, "name": "a"}, {"ID": 2, "Name": "b"}, {"`NAME`": "c", "id": 3}]
    answer = service.ask("POST", "/inserts-stream", "\n".join(map(json.dumps, lines)) + "\n")
    assert (answer.status, answer.type) == (200, DELIMITED)
    assert [json.loads(line) for line in answer.text.splitlines()] == [
        {"status": "ok", "seq": number} for number in range(3)
    ]
    assert service.rows(f"SELECT * FROM {name};") == [[1, "a"], [2, "b"], [3, "c"]]


def test_acknowledgements_are_one_array_if_asked(service: Service) -> None:
    name = service.made_stream()
    lines = "\n".join(map(json.dumps, [{"target": name.lower()}, {"id": 1}, {"id": 2}]))
    answer = service.ask("POST", "/inserts-stream", lines, Accept="application/json")
    assert answer.body == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]
    none = service.ask("POST", "/inserts-stream", json.dumps({"target": name}), Accept="application/json")
    assert none.body == []


def test_the_first_row_that_is_wrong_ends_the_inserts(service: Service) -> None:
    name = service.made_stream()
    for wrong, found in (('{"id": "x"}', "INTEGER"), ("[1]", "Invalid JSON"), ('{"no": 1}', "NO")):
        lines = "\n".join([json.dumps({"target": name}), '{"id": 1}', wrong, '{"id": 2}'])
        ok, error = map(json.loads, service.ask("POST", "/inserts-stream", lines).text.splitlines())
        assert ok == {"status": "ok", "seq": 0}
        assert (error["status"], error["seq"]) == ("error", 1)
        assert error["error_code"] in (40000, 40001)
        assert found in error["message"]
    assert service.rows(f"SELECT id FROM {name};") == [[1], [1], [1]]


def test_inserts_into_nothing_are_refused_before_their_rows(service: Service) -> None:
    answer = service.ask("POST", "/inserts-stream", '{"target": "nothing_there"}\n{"id": 1}\n')
    assert (answer.status, answer.body["error_code"]) == (400, 40001)
    assert "nothing_there" in answer.body["message"]
    assert service.ask("POST", "/inserts-stream", "{}\n").status == 400


def test_who_sends_all_rows_before_it_reads_is_acknowledged_all(service: Service) -> None:
    """There are more acknowledgements than the client's HTTP/2 window holds."""
    name = service.made_stream("id INT KEY")
    count = 5_000
    lines = "\n".join([json.dumps({"target": name}), *(f'{{"id":{n}}}' for n in range(count))])
    with httpx.Client(http1=False, http2=True, timeout=60) as client:
        answer = client.post(f"{service.url}/inserts-stream", content=lines)
    acks = [json.loads(line)["seq"] for line in answer.text.splitlines()]
    assert acks == list(range(count))


def test_rows_are_acknowledged_while_more_are_sent(service: Service) -> None:
    name = service.made_stream()
    connection = service.connection
    connection.putrequest("POST", "/inserts-stream")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()

    def send(text: str) -> None:
        data = text.encode()
        connection.send(b"%x\r\n%b\r\n" % (len(data), data))

    send(json.dumps({"target": name}) + "\n")
    response = connection.response_class(connection.sock)
    response.begin()
    for number in range(3):
        send(f'{{"id": {number}}}\n')
        assert json.loads(response.readline()) == {"status": "ok", "seq": number}
    connection.send(b"0\r\n\r\n")
    assert response.read() == b""
    connection.close()
