"""One connection against servers that misbehave: each fault gets its own error, none hangs."""

import socket
import struct
import threading
from contextlib import contextmanager

import pytest

from penstock.client.config import ClientConfig, ServerAddress
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.connection import Connection
from penstock.client.errors import (
    ProtocolViolation,
    RequestTimedOut,
    ServerUnreachable,
    UnsupportedByServer,
)
from penstock.protocol.api_keys import ApiKey, api_range
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ApiVersionsResponse, MetadataRequest, MetadataResponse
from waiting import wait_until


def versions(**ranges):
    """An ApiVersions response that serves these APIs."""
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=ApiKey[name], min_version=low, max_version=high)
        for name, (low, high) in ranges.items()
    ]
    return ApiVersionsResponse(api_keys=keys)


def frame(correlation_id, body):
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


@contextmanager
def server(*answers):
    """A server that answers each request with the next of ``answers``, functions of the correlation id."""
    listener = socket.create_server(("127.0.0.1", 0))
    requests = []

    def serve():
        with listener, listener.accept()[0] as sock:
            for answer in answers:
                size = sock.recv(4, socket.MSG_WAITALL)
                if len(size) < 4:
                    return
                request = sock.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
                requests.append(request)
                sock.sendall(answer(struct.unpack_from(">i", request, 4)[0]))
            sock.recv(1)  # until the client closes

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield ServerAddress(*listener.getsockname()), requests
    finally:
        thread.join(60)
        assert not thread.is_alive()


def config(*servers, **settings):
    return ClientConfig(servers=servers, **settings)


NEWEST = api_range(ApiKey.API_VERSIONS)[1]
SERVES = versions(API_VERSIONS=(0, 4), METADATA=(5, 9)).encode(NEWEST)


def hello(correlation_id):
    return frame(correlation_id, SERVES)


def test_the_highest_version_that_both_know_is_used():
    answer = MetadataResponse(cluster_id="c").encode(9)
    with server(hello, lambda number: frame(number, b"\0" + answer)) as (address, requests):
        connection = Connection.connect(address, config())
        assert connection.version_of(ApiKey.METADATA) == 9
        assert connection.call(MetadataRequest(topics=[]), MetadataResponse).cluster_id == "c"
        assert struct.unpack_from(">hh", requests[1]) == (ApiKey.METADATA, 9)
        connection.close()


def test_an_older_server_is_asked_again_in_its_own_version():
    refusal = versions(API_VERSIONS=(0, 2))
    refusal.error_code = ErrorCode.UNSUPPORTED_VERSION
    accepted = versions(API_VERSIONS=(0, 2), METADATA=(0, 1)).encode(2)
    with server(lambda number: frame(number, refusal.encode(0)), lambda number: frame(number, accepted)) as (
        address,
        requests,
    ):
        connection = Connection.connect(address, config())
        assert [struct.unpack_from(">hh", request)[1] for request in requests] == [NEWEST, 2]
        assert connection.version_of(ApiKey.METADATA) == 1
        connection.close()


@pytest.mark.parametrize(
    ("served", "message"), [({}, "does not serve"), ({"METADATA": (90, 99)}, "90 to 99")]
)
def test_an_api_without_a_version_in_common_is_named(served, message):
    with server(lambda number: frame(number, versions(**served).encode(NEWEST))) as (address, _):
        connection = Connection.connect(address, config())
        with pytest.raises(UnsupportedByServer, match=message):
            connection.version_of(ApiKey.METADATA)
        connection.close()


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (lambda number: frame(number + 1, b"\0"), ProtocolViolation, "correlation id 2, expected 1"),
        (lambda number: struct.pack(">i", -5), ProtocolViolation, "announced a response of -5 bytes"),
        (lambda number: struct.pack(">i", 2**31 - 1), ProtocolViolation, "announced a response"),
        (
            lambda number: b"HTTP",
            ProtocolViolation,
            "1213486160 .* 'HTTP', so this is an HTTP server",
        ),
        (lambda number: struct.pack(">i", 2) + b"xx", ProtocolViolation, "with 2 bytes"),
        (
            lambda number: frame(number, b"\0\xff\xff\xff\xff"),
            ProtocolViolation,
            "answered METADATA version 9",
        ),
        (lambda number: frame(number, b"\0" * 99)[:20], RequestTimedOut, "timed out after 200 ms"),
    ],
)
def test_an_answer_that_is_none_closes_the_connection(answer, error, message):
    with server(hello, answer) as (address, _):
        connection = Connection.connect(address, config(request_timeout_ms=200))
        with pytest.raises(error, match=message) as caught:
            connection.call(MetadataRequest(topics=[]), MetadataResponse)
        assert f"127.0.0.1:{address.port}" in str(caught.value)
        assert connection.fileno() == -1


def test_a_server_that_hangs_up_is_named():
    with server(hello) as (address, _):
        connection = Connection.connect(address, config())
        connection._socket.shutdown(socket.SHUT_WR)
        with pytest.raises(ServerUnreachable, match=r"connection to 127\.0\.0\.1:\d+ broke while"):
            connection.call(MetadataRequest(topics=[]), MetadataResponse)


def test_answers_in_flight_are_not_mixed_up():
    with server(hello) as (address, _):
        connection = Connection.connect(address, config())
        connection.send(MetadataRequest(topics=[]))
        with pytest.raises(ProtocolViolation, match="1 responses"):
            connection.call(MetadataRequest(topics=[]), MetadataResponse)
        connection.close()


def test_an_answer_that_arrived_is_read_after_its_deadline():
    answer = MetadataResponse(cluster_id="c").encode(9)
    with server(hello, lambda number: frame(number, b"\0" + answer)) as (address, _):
        connection = Connection.connect(address, config(request_timeout_ms=500))
        connection.send(MetadataRequest(topics=[]))
        assert connection.readable(10)
        wait_until(lambda: connection.overdue)
        assert connection.receive(MetadataResponse).cluster_id == "c"
        connection.close()


def test_bootstrap_goes_on_to_the_next_server_and_names_all_that_failed():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = ServerAddress(*closed.getsockname())
    answer = MetadataResponse(cluster_id="c").encode(9)
    with (
        server(hello, lambda number: frame(number, b"\0" + answer)) as (address, _),
        Cluster(config(dead, address)) as cluster,
    ):
        assert cluster.refresh([]).cluster_id == "c"
    with (
        Cluster(config(dead, api_timeout_ms=50)) as cluster,
        pytest.raises(ServerUnreachable, match=str(dead.port)),
    ):
        cluster.refresh([])
