"""The first contact with a cluster: addresses where nothing listens are reported soon. No broker."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import LISTENER_PATIENCE_MS, Cluster
from penstock.client.errors import NothingListens, ServerUnreachable


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def unused() -> Iterator[int]:
    """A port on which nothing listens: it is bound, so that no other process gets it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def closing() -> Iterator[int]:
    """A port on which a server accepts connections and closes them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    listener.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def cluster(servers: str, time: Time) -> Cluster:
    made = Cluster(ClientConfig.from_properties({"bootstrap.servers": servers}))
    made.policy = replace(made.policy, clock=lambda: time.now_s, sleep=time.sleep)
    return made


def test_addresses_where_nothing_listens_are_reported_soon(time: Time, unused: int) -> None:
    message = rf"nothing listens at 127.0.0.1:{unused} \(.*refused\)"
    with cluster(f"127.0.0.1:{unused}", time) as made:
        with pytest.raises(NothingListens, match=message):
            made.require_listener()
        assert LISTENER_PATIENCE_MS / 2 < 1000 * time.now_s <= LISTENER_PATIENCE_MS
        with pytest.raises(NothingListens):
            made.refresh()
        assert time.now_s > 50, "other calls wait for a broker that is down for a while"


def test_a_host_without_an_address_is_reported_as_well(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", resolve)
    with (
        cluster("elsewhere:9092", time) as made,
        pytest.raises(NothingListens, match=r"elsewhere:9092 \(.*not known"),
    ):
        made.require_listener()


@pytest.mark.parametrize("first", ["unused", "closing"])
def test_a_server_that_does_not_answer_well_is_left_to_later_calls(
    time: Time, unused: int, closing: int, first: str
) -> None:
    order = (unused, closing) if first == "unused" else (closing, unused)
    with cluster(",".join(f"127.0.0.1:{port}" for port in order), time) as made:
        made.require_listener()
        with pytest.raises(ServerUnreachable, match="no server of the cluster can be reached"):
            made.refresh()
