"""Clients that send nonsense, too much, too little or too slowly, or that disconnect.

Each gets an error or is disconnected, and no other client is affected.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sql_service import Service, served

from penstock.testing import Cluster
from waiting import wait_until

EARLIEST = {"auto.offset.reset": "earliest"}
# Without /ksql/terminate: any object ends the service of all these tests.
PATHS = ("/ksql", "/query", "/query-stream", "/close-query", "/inserts-stream")
TYPES = ("", "text/xml", "application/json")
FIELDS = (
    *("ksql", "sql", "streamsProperties", "properties", "sessionVariables", "commandSequenceNumber"),
    *("queryId", "target", "deleteTopicList"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
BODIES = st.one_of(
    st.binary(max_size=60),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4).map(lambda value: json.dumps(value).encode()),
)


@pytest.fixture(scope="module")
def service(penstock_cluster: Cluster) -> Iterator[Service]:
    with served(penstock_cluster.bootstrap_servers, ksql_idle_connection_timeout_seconds="1") as found:
        yield found


def raw(service: Service, data: bytes) -> bytes:
    """The whole response, until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", service.server.port), timeout=20) as connection:
        found = b""
        try:
            connection.sendall(data)
            while part := connection.recv(65536):
                found += part
        except ConnectionError:
            pass  # the server does not read the rest of the data
        return found


def request(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Connection: close", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PATHS), body=BODIES, kind=st.sampled_from(TYPES))
def test_whatever_a_body_says_the_answer_is_one_of_the_api(
    service: Service, path: str, body: bytes, kind: str
) -> None:
    answer = httpx.post(f"{service.url}{path}", content=body, headers={"content-type": kind}, timeout=30)
    assert answer.status_code in (200, 400, 406), answer.text
    if answer.status_code != 200:
        told = answer.json()
        assert told["@type"] in ("generic_error", "statement_error")
        assert told["error_code"] // 100 == answer.status_code
        assert told["message"]


@pytest.mark.parametrize("topics", [{}, "", 0, False, [1], {"a": 1}])
def test_a_list_of_topics_that_is_none_ends_no_service(service: Service, topics: object) -> None:
    answer = service.ask("POST", "/ksql/terminate", {"deleteTopicList": topics})
    assert (answer.status, answer.body["error_code"]) == (400, 40000)
    assert service.run("SHOW STREAMS;")


def test_half_a_surrogate_pair_is_told_in_utf8(service: Service) -> None:
    answer = httpx.post(f"{service.url}/ksql", content=b'{"ksql": "SELECT \\ud800;"}')
    assert answer.status_code == 400
    assert answer.json()["statementText"] == "SELECT \ud800;"
    answer.content.decode()


def test_a_body_that_is_too_large_is_told(service: Service) -> None:
    for path in ("/ksql", "/inserts-stream"):
        answer = raw(service, request(path, b'{"ksql": "' + b"x" * (9 << 20)))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b'"error_code":40000' in answer


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"GET /info HTTP/9.9\r\n\r\n",
        b"POST /ksql HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /ksql HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /info HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n",
        b"GET /info HTTP/1.1\r\n" + b"".join(b"X%d: a\r\n" % n for n in range(50_000)) + b"\r\n",
    ],
)
def test_what_is_no_request_is_refused(service: Service, data: bytes) -> None:
    assert raw(service, data).startswith(b"HTTP/1.1 400 ")
    assert service.ask("GET", "/info").status == 200


def test_half_a_head_is_not_awaited_for_ever(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.web.http1._HEAD_S", 0.2)
    for head in (b"GET /in", b"GET /info HTTP/1.1\r\nHost: x\r\nX-", b"POST /ksql HTTP/1.1\r\nContent-Le"):
        assert raw(service, head) == b""
    whole = b"GET /info HTTP/1.1\r\nHost: x\r\n\r\nGET /info HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert raw(service, whole).count(b"KsqlServerInfo") == 2


def test_half_a_body_is_not_awaited_for_ever(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.sql.server.application._BODY_S", 0.2)
    head = b"POST /ksql HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 50\r\n\r\n"
    answer = raw(service, head + b'{"ksql"')
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"error_code":40800' in answer


def test_many_slow_clients_hold_nobody_up(service: Service) -> None:
    waiting = [socket.create_connection(("127.0.0.1", service.server.port)) for _ in range(200)]
    try:
        for number, each in enumerate(waiting):
            half_body = b"POST /query-stream HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"
            each.sendall(half_body if number % 2 else b"GET /in")
        assert service.run("SHOW STREAMS;")
        name = service.made_stream(rows=1)
        assert service.rows(f"SELECT * FROM {name} EMIT CHANGES LIMIT 1;") == [[0, "n0"]]
    finally:
        for each in waiting:
            each.close()


def test_statements_that_wait_do_not_hide_how_the_server_is(
    penstock_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.sql.server.application._STATEMENT_THREADS", 1)
    is_asked = threading.Event()
    with served(penstock_cluster.bootstrap_servers) as service, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(service.server.engine._topics, "shape", lambda name: is_asked.set())
        asked = {"ksql": "ASSERT TOPIC 'nothing' TIMEOUT 1 HOUR;"}
        waiting = pool.submit(service.ask, "POST", "/ksql", asked)
        assert is_asked.wait(60)
        for path in ("/info", "/healthcheck", "/v1/metadata/id"):
            assert service.ask("GET", path).status == 200
        assert not waiting.done()
        service.server.close()
        assert waiting.result(60).status == 500


# Clients of push queries


def running(service: Service) -> list[str]:
    [found] = service.run("SHOW QUERIES;")
    return [each["id"] for each in found["queries"]]


def threads_of_feeds(name: str) -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == f"{name} feed"]


def test_nothing_is_left_of_clients_that_went_away(service: Service) -> None:
    name = service.made_stream(rows=1)
    text = json.dumps({"sql": f"SELECT * FROM {name} EMIT CHANGES;", "properties": EARLIEST}).encode()
    clients = [socket.create_connection(("127.0.0.1", service.server.port)) for _ in range(20)]
    for each in clients:
        each.sendall(request("/query-stream", text).replace(b"Connection: close\r\n", b""))
    wait_until(lambda: len(running(service)) == 20)
    assert threads_of_feeds(name) == [f"{name} feed"]
    for each in clients:
        each.close()
    wait_until(lambda: not running(service))
    wait_until(lambda: not threads_of_feeds(name))
    wait_until(lambda: not service.server._streams._open)


@pytest.mark.parametrize("http2", [False, True])
def test_a_client_that_takes_nothing_loses_its_query(service: Service, http2: bool) -> None:
    name = service.made_stream()
    row = json.dumps({"id": 1, "name": "x" * 100_000})
    asked = {"sql": f"SELECT * FROM {name} EMIT CHANGES;"}
    with httpx.Client(http1=not http2, http2=http2, timeout=60) as client:
        sent = client.build_request("POST", f"{service.url}/query-stream", json=asked)
        idle = client.send(sent, stream=True)
        with service.stream("/query-stream", asked) as reader:
            kept = json.loads(reader.readline())["queryId"]
            lines = "\n".join([json.dumps({"target": name}), *[row] * 300])
            with ThreadPoolExecutor(1) as beside:  # reads meanwhile, so that this client is never idle
                inserted = beside.submit(service.ask, "POST", "/inserts-stream", lines)
                for _ in range(300):
                    assert len(reader.readline()) > 100_000
                assert inserted.result(60).text.count('"ok"') == 300
            wait_until(lambda: running(service) == [kept])
        idle.close()
