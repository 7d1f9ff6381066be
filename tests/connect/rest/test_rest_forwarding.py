"""Requests that another worker has to answer, on servers that forward to each other."""

import base64
import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from rest_conversation import converse
from rest_serving import Served, ask, serving

from penstock.connect.group.session_keys import sign
from penstock.connect.herding.errors import NotLeader, RebalanceNeeded
from penstock.connect.herding.worker_client import WorkerClient, WorkerUnreachable
from penstock.connect.worker import start
from penstock.testing import Cluster

FORWARDING = Path(__file__).with_name("forwarding_conversation.txt")
SOURCE = {"connector.class": "FileStreamSource"}
TOO_FAR = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
STALE = (
    "Cannot complete request momentarily due to stale configuration "
    "(typically caused by a concurrent config change)"
)
NO_LEADER = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
)


def follow(served: Served, url: str | None) -> None:
    """Let a herder say that the worker at this URL leads."""

    def refuse() -> None:
        raise NotLeader("Only the leader can set connector configs.", url)

    served.herder.refuse_writes = refuse


@contextlib.contextmanager
def workers(count: int) -> Iterator[list[Served]]:
    """Workers of which each follows the next one, and the last one leads."""
    with contextlib.ExitStack() as stack:
        served = [stack.enter_context(serving()) for _ in range(count)]
        for each in served:
            each.herder.key = served[-1].herder.key
        for follower, leader in itertools.pairwise(served):
            follow(follower, leader.server.advertised_url)
        yield served


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_leader_answers_requests_to_any_worker(count: int) -> None:
    with workers(count) as served:
        url, leader = served[0].url, served[-1].herder
        created = ask(f"{url}/connectors", "POST", {"name": "a b", "config": SOURCE})
        assert (created.status, created.headers["location"]) == (201, f"{url}/connectors/a%20b")
        assert created.body["config"] == {**SOURCE, "name": "a b"}
        assert list(leader.found) == ["a b"]
        again = ask(f"{url}/connectors", "POST", {"name": "a b", "config": SOURCE})
        assert (again.status, again.message) == (409, "Connector a b already exists")
        changed = ask(f"{url}/connectors/a%20b/config", "PATCH", {"x": 1})
        assert (changed.status, changed.body["config"]["x"]) == (200, "1")
        refused = ask(f"{url}/connectors/a%20b/config", "PUT", {})
        assert (refused.status, refused.message[:16]) == (400, "Connector config")
        restarted = ask(f"{url}/connectors/a%20b/restart?includeTasks=true&onlyFailed=false", "POST")
        assert (restarted.status, restarted.body["tasks"][0]["state"]) == (202, "RESTARTING")
        only_failed = ask(f"{url}/connectors/a%20b/restart?onlyFailed=true", "POST")
        assert (only_failed.status, only_failed.body["tasks"][0]["state"]) == (202, "RUNNING")
        assert ask(f"{url}/connectors/a%20b/restart", "POST").status == 204
        assert ask(f"{url}/connectors/a%20b/tasks/0/restart", "POST").status == 204
        assert ask(f"{url}/connectors/a%20b/stop", "PUT").status == 204
        offsets = {"offsets": [{"partition": {"p": 1}, "offset": {"o": 2.5}}]}
        altered = ask(f"{url}/connectors/a%20b/offsets", "PATCH", offsets)
        assert altered.body == {"message": "The offsets for this connector have been altered successfully"}
        assert [each._asdict() for each in leader.found["a b"].offsets] == offsets["offsets"]
        assert ask(f"{url}/connectors/a%20b/offsets", "DELETE").status == 200
        assert ask(f"{url}/connectors/a%20b", "DELETE").status == 204
        assert not leader.found


@pytest.mark.parametrize("count", [1, 2, 3])
def test_signatures_are_forwarded(count: int) -> None:
    with workers(count) as served:
        url, leader = f"{served[0].url}/connectors/c", served[-1].herder
        body = b'[{"a": "b", "n": 1.50}, {}]'
        signed = sign(leader.key, body, "HmacSHA256")
        client = WorkerClient()
        assert client.ask("POST", f"{url}/tasks", body, signed).status == 204
        assert client.ask("PUT", f"{url}/fence", headers=sign(leader.key, b"", "HmacSHA256")).status == 204
        assert leader.requests == [("tasks", "c", [{"a": "b", "n": "1.50"}, {}]), ("fence", "c")]
        refused = client.ask("POST", f"{url}/tasks", b"[]", signed)
        assert (refused.status, refused.message) == (403, "Internal request contained invalid signature.")


def test_requests_are_forwarded_at_most_twice() -> None:
    with workers(4) as served:
        url = served[0].url
        far = ask(f"{url}/connectors/c", "DELETE")
        assert (far.status, far.message) == (409, TOO_FAR)
        for direct in ("false", "FALSE", "x"):
            near = ask(f"{served[2].url}/connectors/c?forward={direct}", "DELETE")
            assert (near.status, near.message) == (409, TOO_FAR)
        once = ask(f"{served[2].url}/connectors/c?forward=true", "DELETE")
        assert (once.status, once.message) == (404, "Connector c not found")


def test_leaders_that_cannot_be_reached() -> None:
    with serving() as served:
        url = f"{served.url}/connectors/c"
        follow(served, None)
        unknown = ask(url, "DELETE")
        assert (unknown.status, unknown.message) == (409, NO_LEADER)
        follow(served, "http://127.0.0.1:1/")
        dead = ask(url, "DELETE")
        assert dead.status == 500
        assert dead.message.startswith("IO Error trying to forward REST request: the worker at 127.0.0.1:1 ")
    with pytest.raises(WorkerUnreachable, match="did not answer"):
        WorkerClient().ask("GET", "http://127.0.0.1:1/")


def test_followers_forward_as_kafka_records_it(tmp_path: Path) -> None:
    """The replay of a conversation with two of Apache's workers."""
    script = FORWARDING.read_text()
    with workers(2) as [follower, leader]:
        follower.herder.found = leader.herder.found
        answers = converse(script, follower.url, tmp_path)
    assert answers.splitlines() == script.splitlines()


@pytest.mark.long
def test_whole_workers_forward_as_kafka_records_it(tmp_path: Path) -> None:
    script = FORWARDING.read_text()
    with Cluster({"group.initial.rebalance.delay.ms": "0"}) as cluster:
        properties = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "scheduled.rebalance.max.delay.ms": "0",
            "heartbeat.interval.ms": "200",
            "listeners": "http://127.0.0.1:0",
        }
        with start(properties) as leader:
            leader.wait_until_ready()
            with start(properties) as follower:
                follower.wait_until_ready()
                answers = converse(script, follower.advertised_url, tmp_path)
    assert answers.splitlines() == script.splitlines()


def test_rebalances() -> None:
    def refuse() -> None:
        raise RebalanceNeeded

    with serving() as served:
        served.herder.refuse_reads = served.herder.refuse_writes = refuse
        write = ask(f"{served.url}/connectors/c", "DELETE")
        assert (write.status, write.message) == (409, STALE)
        read = ask(f"{served.url}/connectors/c")
        assert (read.status, read.message) == (
            500,
            "Request cannot be completed because a rebalance is expected",
        )


def test_credentials_are_forwarded(tmp_path_factory: pytest.TempPathFactory) -> None:
    users = tmp_path_factory.mktemp("users") / "users"
    users.write_text("writer: w, writer\nreader: r, reader\n")
    guarded = {"authentication.method": "BASIC", "penstock.authentication.users": str(users)}
    with serving() as follower, serving(guarded) as leader:
        follow(follower, leader.server.advertised_url)
        credentials = {"Authorization": "Basic " + base64.b64encode(b"writer:w").decode()}
        body = {"name": "c", "config": SOURCE}
        assert ask(f"{follower.url}/connectors", "POST", body).status == 401
        created = ask(f"{follower.url}/connectors", "POST", body, credentials)
        assert created.status == 201
