"""The HTTP sink's task against a real server that fails in many ways."""

import json
import os
import random
import ssl
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import pytest
import trustme

from penstock.connect import (
    ConfigInvalid,
    ConnectError,
    DataError,
    Header,
    Schema,
    SinkTaskTest,
    Struct,
    decimal_schema,
)
from penstock.connect.connectors.http.delivery.redelivery import Rejected
from penstock.connect.connectors.http.sink import HttpSinkTask
from penstock.connect.data.schema import INT32, STRING
from recording_http_server import CUT, Answer, Received, RecordingServer, json_answer, recording_server

TOLERANT = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with recording_server() as server:
        yield server


def sink(server: RecordingServer, path: str = "/", **more: str) -> SinkTaskTest:
    more = {name.replace("_", "."): value for name, value in more.items()}
    return SinkTaskTest(HttpSinkTask(), {"http.url": server.url + path, "retry.backoff.ms": "0", **more})


def test_each_record_is_a_request(server: RecordingServer) -> None:
    schema = Schema.struct({"id": INT32, "price": decimal_schema(2)})
    with sink(server, http_headers_content_type="application/json", http_headers_additional="X-A: 1") as test:
        test.put("orders", {"id": 1})
        test.put("orders", "text é")
        test.put("orders", b"\x00\xff")
        test.put("orders", Struct(schema, {"id": 2, "price": Decimal("9.50")}), schema=schema)
        test.put("orders", None, key="gone")
    assert server.bodies == [b'{"id":1}', "text é".encode(), b"\x00\xff", b'{"id":2,"price":9.50}']
    first = server.received[0]
    assert (first.method, first.path) == ("POST", "/")
    assert first.headers["content-type"] == "application/json"
    assert first.headers["x-a"] == "1"
    assert [each.headers["idempotency-key"] for each in server.received] == [
        f"orders-0-{offset}" for offset in range(4)
    ]
    assert len({each.connection for each in server.received}) == 1


def test_urls_are_templates_and_tombstones_can_delete(server: RecordingServer) -> None:
    path = "/${topic}/${key.id}?n=${value.a.b}&h=${header.trace}&p=${partition}"
    more = {"behavior_on_null_values": "delete", "request_method": "put"}
    with sink(server, path, **more) as test:
        test.put("a/b", {"a": {"b": "x&y"}}, key={"id": 7}, headers=[Header("trace", "t1")])
    with sink(server, "/items/${key}", **more) as test:
        test.put("items", None, key="ä b")
    first, second = server.received
    assert first.path == "/a%2Fb/7"
    assert first.query == {"n": "x&y", "h": "t1", "p": "0"}
    assert first.method == "PUT"
    assert (second.method, second.path, second.body) == ("DELETE", "/items/%C3%A4%20b", b"")


def test_a_record_without_the_value_of_the_url_is_reported(server: RecordingServer) -> None:
    with sink(server, "/${value.id}") as test, pytest.raises(DataError, match=r"\$\{value.id\} has no value"):
        test.put("orders", {"name": "tea"})
    with sink(server, "/${value.id}", **TOLERANT) as test:
        for value in ({"id": 1}, {"id": [1]}, {"id": True}):
            test.put("orders", value)
        assert [each.value for each in test.failed] == [{"id": [1]}]
    assert [each.path for each in server.received] == ["/1", "/true"]


@pytest.mark.parametrize("key", ["", ".", "..", "\ud800"])
def test_a_key_that_would_lead_to_another_path_is_no_part_of_a_url(server: RecordingServer, key: str) -> None:
    with sink(server, "/items/${key}", behavior_on_null_values="delete", **TOLERANT) as test:
        test.put("orders", None, key=key)
        assert len(test.failed) == 1
    assert not server.received


def test_batches(server: RecordingServer) -> None:
    batching = {"batching_enabled": "true", "batch_max_size": "2"}
    with sink(server, **batching, batch_prefix="[", batch_suffix="]", batch_separator=",") as test:
        for number in range(5):
            test.add("orders", {"n": number})
        test.step()
    assert [json.loads(body) for body in server.bodies] == [
        *([{"n": 0}, {"n": 1}], [{"n": 2}, {"n": 3}], [{"n": 4}])
    ]
    names = [each.headers["idempotency-key"] for each in server.received]
    assert names == ["orders-0-0:1", "orders-0-2:3", "orders-0-4"]
    with sink(server, **batching) as test:
        test.add("orders", "a")
        test.add("orders", "b")
        test.step()
    assert server.bodies[-1] == b"a\nb\n"


def test_a_batch_that_is_refused_is_halved_until_the_record_is_found(server: RecordingServer) -> None:
    server.answer = lambda received: Answer(422 if b"bad" in received.body else 200)
    with sink(server, batching_enabled="true", **TOLERANT) as test:
        for number in range(7):
            test.add("orders", "bad" if number == 4 else f"good{number}")
        test.step()
        assert [each.value for each in test.failed] == ["bad"]
        test.commit()
        assert test.committed("orders") == 7
    taken = b"".join(body for body in server.bodies if b"bad" not in body).split()
    assert taken == [f"good{number}".encode() for number in range(7) if number != 4]


def test_a_refused_record_fails_the_task_or_goes_to_the_dead_letters(server: RecordingServer) -> None:
    server.answer = lambda received: json_answer({"error": "no such item"}, 400)
    with sink(server) as test, pytest.raises(Rejected, match=r"POST .* status 400: .*no such item"):
        test.put("orders", "x")
    with sink(server, **TOLERANT) as test:
        test.put("orders", "x")
        (failed,) = test.failed
        assert "status 400" in str(failed.error)


@pytest.mark.parametrize("status", [301, 401, 403])
def test_what_concerns_every_request_is_no_dead_letter(server: RecordingServer, status: int) -> None:
    server.answer = lambda received: Answer(status)
    with sink(server, **TOLERANT) as test, pytest.raises(ConnectError, match=f"status {status}"):
        test.put("orders", "x")


@pytest.mark.parametrize("failure", [Answer(503), Answer(429), Answer(408), CUT])
def test_passing_failures_are_retried_and_then_fail(server: RecordingServer, failure: Answer) -> None:
    script = iter([failure, failure, Answer()])
    server.answer = lambda received: next(script)
    with sink(server, max_retries="2", **TOLERANT) as test:
        test.put("orders", "x")
        assert test.must_redeliver
        test.step()
        assert test.must_redeliver
        test.step()
        assert not test.must_redeliver
    assert {each.headers["idempotency-key"] for each in server.received} == {"orders-0-0"}
    server.answer = lambda received: failure
    with sink(server, max_retries="1", **TOLERANT) as test:
        test.put("orders", "x")
        with pytest.raises(ConnectError, match="Failed after 1 retries"):  # and is no dead letter
            test.step()
        assert not test.failed
    with sink(server, max_retries="0", kafka_retry_backoff_ms="1") as test:
        for _ in range(5):
            test.step() if test.must_redeliver else test.put("orders", "x")
            assert test.must_redeliver


def test_a_record_on_which_the_server_fails_is_retried_and_then_reported(server: RecordingServer) -> None:
    server.answer = lambda received: Answer(500 if received.body == b"poison" else 200)
    with sink(server, max_retries="2", **TOLERANT) as test:
        for value in ("a", "poison", "b"):
            test.add("orders", value)
        test.step()
        while test.must_redeliver:
            test.step()
        assert [each.value for each in test.failed] == ["poison"]
    counts = Counter(server.bodies)
    assert (counts[b"a"], counts[b"b"]) == (1, 1)
    assert counts[b"poison"] >= 3


def test_a_record_on_which_the_server_fails_is_found_in_its_batch(server: RecordingServer) -> None:
    server.answer = lambda received: Answer(500 if b"poison" in received.body else 200)
    with sink(server, max_retries="2", batching_enabled="true", **TOLERANT) as test:
        for number in range(7):
            test.add("orders", "poison" if number == 3 else f"good{number}")
        test.step()
        while test.must_redeliver:
            test.step()
        assert [each.value for each in test.failed] == ["poison"]
    taken = b"".join(body for body in server.bodies if b"poison" not in body).split()
    assert taken == [f"good{number}".encode() for number in range(7) if number != 3]


def test_the_server_says_how_long_to_wait(server: RecordingServer) -> None:
    """Workers call `put` earlier, for instance after a rebalance or to commit offsets."""
    server.answer = lambda received: Answer(429, headers={"Retry-After": "3600"})
    with sink(server, max_retries="1") as test:
        test.put("orders", "x")
        for _ in range(3):
            assert test.must_redeliver
            test.step()
    assert len(server.received) == 1


def test_only_what_is_missing_is_sent_again(server: RecordingServer) -> None:
    script = iter([200, 200, 503, 200, 200])
    server.answer = lambda received: Answer(next(script))
    with sink(server) as test:
        for number in range(4):
            test.add("orders", f"{number}")
        test.step()
        assert test.must_redeliver
        test.step()
    assert server.bodies == [b"0", b"1", b"2", b"2", b"3"]


@pytest.mark.parametrize("batching", ["true", "false"])
def test_keys_stay_in_order_however_the_server_fails(server: RecordingServer, batching: str) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    taken: list[tuple[str, int]] = []

    def answer(received: Received) -> Answer:
        with server.lock:
            failure = chance.choice([None, None, None, Answer(503), Answer(429), CUT])
            if failure is None or (failure.cut and chance.random() < 0.5):
                taken.extend(tuple(json.loads(line)) for line in received.body.split(b"\n") if line)
            return failure or Answer()

    server.answer = answer
    more = {"max_in_flight_requests": "3", "batching_enabled": batching}
    with sink(server, max_retries="1000", batch_max_size="5", **more) as test:
        for number in range(60):
            key = chance.choice("abcdefg")
            test.add("orders", [key, number], key=key)
        test.step()
        while test.must_redeliver:
            test.step()
    assert {number for _, number in taken} == set(range(60))
    for key in "abcdefg":
        numbers = [number for found, number in taken if found == key]
        firsts = list(dict.fromkeys(numbers))
        assert firsts == sorted(firsts)


@pytest.mark.parametrize(
    ("config", "header"),
    [
        ({"http.authorization.type": "static", "http.headers.authorization": "Key 1"}, "Key 1"),
        (
            {"http.authorization.type": "Basic", "http.auth.user": "u", "http.auth.password": "p:w"},
            "Basic dTpwOnc=",
        ),
        ({"http.authorization.type": "bearer", "http.auth.token": "abc"}, "Bearer abc"),
    ],
)
def test_credentials(server: RecordingServer, config: Mapping[str, str], header: str) -> None:
    with SinkTaskTest(HttpSinkTask(), {"http.url": server.url, **config}) as test:
        test.put("orders", "x")
    assert server.received[0].headers["authorization"] == header


@pytest.mark.parametrize("mode", ["HEADER", "URL"])
def test_tokens_are_fetched_and_renewed_when_they_are_refused(server: RecordingServer, mode: str) -> None:
    tokens: list[Received] = []

    def answer(received: Received) -> Answer:
        if received.path == "/token":
            tokens.append(received)
            return json_answer({"access_token": f"t{len(tokens)}", "expires_in": 3600})
        return Answer(200 if received.headers["authorization"] == f"Bearer t{valid}" else 401)

    server.answer = answer
    config = {
        "http.url": f"{server.url}/data",
        "http.authorization.type": "oauth2",
        "oauth2.access.token.url": f"{server.url}/token",
        "oauth2.client.id": "me",
        "oauth2.client.secret": "a secret",
        "oauth2.client.scope": "write",
        "oauth2.client.authorization.mode": mode,
    }
    valid = 1
    with SinkTaskTest(HttpSinkTask(), config) as test:
        test.put("orders", "x")
        test.put("orders", "y")
        assert len(tokens) == 1
        valid = 2
        test.put("orders", "z")
        assert len(tokens) == 2
        valid = 9
        with pytest.raises(ConnectError, match="status 401"):
            test.put("orders", "never")
    form = {"grant_type": "client_credentials", "scope": "write"}
    found = dict(pair.split("=") for pair in tokens[0].body.decode().split("&"))
    if mode == "URL":
        assert found == {**form, "client_id": "me", "client_secret": "a+secret"}
    else:
        assert found == form
        assert tokens[0].headers["authorization"] == "Basic bWU6YSUyMHNlY3JldA=="


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"http.url": "ftp://a"},
        {"http.url": "http://${key}/"},
        {"http.url": "http://user:secret@a/"},
        {"http.url": "http://a/${nothing}"},
        {"http.url": "http://a", "http.authorization.type": "oauth2"},
        {"http.url": "http://a", "http.authorization.type": "kerberos"},
        {"http.url": "http://a", "http.headers.additional": "novalue"},
        {"http.url": "https://a", "ssl.truststore.location": "/nowhere"},
    ],
)
def test_wrong_configurations(config: Mapping[str, str]) -> None:
    with pytest.raises(ConfigInvalid), SinkTaskTest(HttpSinkTask(), config):
        pass


def test_string_schemas_are_texts(server: RecordingServer) -> None:
    with sink(server) as test:
        test.put("orders", "tea", schema=STRING)
    assert server.bodies == [b"tea"]


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_certificates_are_verified(tmp_path: Path) -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    trusted = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(trusted)
    with recording_server(tls=tls) as server:
        config = {"http.url": f"https://127.0.0.1:{server.port}/", "max.retries": "0"}
        for more in ({"ssl.truststore.location": str(trusted)}, {"http.ssl.trust.all.certs": "true"}):
            with SinkTaskTest(HttpSinkTask(), {**config, **more}) as test:
                test.put("orders", "x")
                assert not test.must_redeliver
        with (
            SinkTaskTest(HttpSinkTask(), config) as test,
            pytest.raises(ConnectError, match="certificate verify failed"),
        ):
            test.put("orders", "x")
    assert server.bodies == [b"x", b"x"]
