"""The outcome of a statement when its command's transaction or the connection to the node fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from engine_server import Server, eventually

from penstock.protocol.api_keys import ApiKey
from penstock.sql.engine import ErrorCode
from penstock.testing import Cluster
from wire_proxy import Fate, Request, WireProxy

CREATE = "CREATE STREAM made (v STRING) WITH (kafka_topic='made', partitions=1, value_format='json');"
COMMAND = "stream/MADE/create"


@pytest.fixture
def proxy() -> Iterator[WireProxy]:
    """A proxy for all traffic between the node and its clients."""
    with (
        WireProxy() as proxy,
        Cluster({"advertised.listeners": f"PLAINTEXT://{proxy.bootstrap_servers}"}) as node,
    ):
        proxy.target = node.bootstrap_servers
        yield proxy


@pytest.fixture
def behind(proxy: WireProxy) -> Iterator[Server]:
    """A server with short timeouts, behind the proxy."""
    server = Server(
        proxy.bootstrap_servers,
        default_api_timeout_ms="1500",
        request_timeout_ms="1000",
        retry_backoff_ms="50",
    )
    yield server
    proxy.decide = lambda request: Fate.PASS
    server.close()


def nothing_passes(request: Request) -> Fate:
    return Fate.CUT_BEFORE


def only_the_later_one_passes(request: Request) -> Fate:
    return Fate.PASS if request.client_id == "later" else Fate.CUT_BEFORE


def everything_passes(request: Request) -> Fate:
    return Fate.PASS


def streams(server: Server) -> list[str]:
    return [each["name"] for each in server.one("SHOW STREAMS")["streams"]]


def status(server: Server) -> str:
    return server.engine.status(COMMAND).status


def test_an_answer_that_is_lost_is_asked_for_again(proxy: WireProxy, behind: Server) -> None:
    proxy.plan(ApiKey.END_TXN, Fate.CUT_AFTER)
    behind.run(CREATE)
    assert [fate for _, fate in proxy.met] == [Fate.CUT_AFTER]
    assert streams(behind) == ["MADE"]


def test_a_look_at_groups_is_repeated_when_its_connection_ends(proxy: WireProxy, behind: Server) -> None:
    proxy.plan(ApiKey.LIST_GROUPS, Fate.CUT_BEFORE)
    assert behind.one("SHOW ALL TOPICS EXTENDED;")["topics"]
    assert [fate for _, fate in proxy.met] == [Fate.CUT_BEFORE]


def test_a_command_that_may_be_written_is_said_to_be_so_and_applied_if_it_is(
    proxy: WireProxy, behind: Server
) -> None:
    proxy.plan(ApiKey.END_TXN, Fate.CUT_AFTER)
    proxy.when_cut = lambda: setattr(proxy, "decide", nothing_passes)
    error = behind.refused(CREATE, "It is not known whether the statement was written")
    assert "stream/`MADE`/create" in error.message
    assert error.code is ErrorCode.SERVER_ERROR
    assert (status(behind), streams(behind)) == ("QUEUED", [])
    proxy.decide = everything_passes
    assert eventually(lambda: status(behind), lambda found: found == "SUCCESS") == "SUCCESS"
    assert streams(behind) == ["MADE"]
    assert "made" in behind.topics()
    assert behind.message("CREATE STREAM next AS SELECT * FROM made;").startswith("Created query")


def test_a_command_that_was_not_written_after_all_is_said_to_be_so(proxy: WireProxy, behind: Server) -> None:
    cut: list[Request] = []

    def cut_from_the_end_on(request: Request) -> Fate:
        if request.api_key == ApiKey.END_TXN:
            cut.append(request)
        return Fate.CUT_BEFORE if cut else Fate.PASS

    proxy.decide = cut_from_the_end_on
    behind.refused(CREATE, "It is not known whether the statement was written")
    proxy.decide = everything_passes
    assert eventually(lambda: status(behind), lambda found: found != "QUEUED") == "ERROR"
    assert streams(behind) == []
    behind.run(CREATE)
    assert (status(behind), streams(behind)) == ("SUCCESS", ["MADE"])


def test_a_command_that_can_not_be_written_leaves_nothing(proxy: WireProxy, behind: Server) -> None:
    proxy.decide = lambda request: Fate.CUT_BEFORE if request.api_key == ApiKey.PRODUCE else Fate.PASS
    behind.refused(CREATE, "records were not acknowledged")
    assert streams(behind) == []
    assert "made" not in behind.topics()
    with pytest.raises(Exception, match="Command not found"):
        behind.engine.status(COMMAND)
    proxy.decide = everything_passes
    behind.run(CREATE)
    assert streams(behind) == ["MADE"]


def test_a_settled_outcome_takes_nothing_from_a_server_that_came_later(
    proxy: WireProxy, behind: Server
) -> None:
    proxy.plan(ApiKey.END_TXN, Fate.CUT_AFTER)
    proxy.when_cut = lambda: setattr(proxy, "decide", only_the_later_one_passes)
    behind.refused(CREATE, "It is not known whether the statement was written")
    later = Server(proxy.bootstrap_servers, service_id=behind.config.service_id, client_id="later")
    try:
        assert streams(later) == ["MADE"]
        proxy.decide = everything_passes
        assert eventually(lambda: status(behind), lambda found: found == "SUCCESS") == "SUCCESS"
        later.run(CREATE.replace("made", "theirs"))
        behind.refused(CREATE.replace("made", "mine"), "Could not write the statement")
    finally:
        later.close()


def test_a_command_behind_an_open_transaction_is_queued_until_it_can_be_read(
    start: Callable[..., Server],
) -> None:
    server = start(ksql_server_command_response_timeout_ms="100")
    foreign = Producer({"bootstrap.servers": server.servers, "transactional.id": server.config.service_id})
    foreign.init_transactions(20)
    foreign.begin_transaction()
    foreign.produce(server.config.command_topic, b"{}", b"no command")
    foreign.flush(20)
    answer = server.one(CREATE, properties={"auto.offset.reset": "earliest"})
    assert answer["commandStatus"]["status"] == "QUEUED"
    assert answer["commandId"] == "stream/`MADE`/create"
    assert streams(server) == []
    server.refused(CREATE.replace("made", "next"), "a transaction in .* is still open")
    foreign.abort_transaction(20)
    assert eventually(lambda: status(server), lambda found: found == "SUCCESS") == "SUCCESS"
    server.run("SHOW STREAMS;", command_sequence=answer["commandSequenceNumber"])
    assert streams(server) == ["MADE"]
