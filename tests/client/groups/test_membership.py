"""Memberships of a group on a real node: busy owners, rebalances on request, and joining that is given up."""

import threading
from collections.abc import Iterator, Mapping

import pytest

from penstock.client.config import ClientConfig
from penstock.client.groups.heartbeats import Joined, Timeouts
from penstock.client.groups.membership import Membership
from penstock.testing import Cluster
from waiting import wait_until

PATIENT = Timeouts(session_ms=1_000, rebalance_ms=60_000, heartbeat_ms=100)
IMPATIENT = PATIENT._replace(rebalance_ms=1_500)


class Owner:
    """A member that publishes its name, and as the leader assigns to each member the names of all."""

    def __init__(self, servers: str, group_id: str, name: str, timeouts: Timeouts) -> None:
        self._name = name
        self.generations: list[Joined] = []
        self.names: set[str] = set()
        self.events: list[str] = []
        config = ClientConfig.from_properties({"bootstrap.servers": servers})
        self.membership = Membership(config, group_id, "names", timeouts, self)

    def protocols(self) -> Mapping[str, bytes]:
        return {"plain": self._name.encode()}

    def assign(self, joined: Joined, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return dict.fromkeys(members, b" ".join(members.values()))

    def assigned(self, joined: Joined, assignment: bytes) -> None:
        self.generations.append(joined)
        self.names = set(assignment.decode().split())
        self.events.append("assigned")

    def rebalancing(self) -> None:
        self.events.append("rebalancing")

    def lost(self) -> None:
        self.events.append("lost")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
    with Cluster(settings) as cluster:
        yield cluster


@pytest.fixture
def ann(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Owner]:
    timeouts = getattr(request, "param", PATIENT)
    owner = Owner(cluster.bootstrap_servers, request.node.originalname, "ann", timeouts)
    owner.membership.poll()
    yield owner
    owner.membership.close()


@pytest.fixture
def bob(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Owner]:
    """A second member of the test's group, which polls in a thread of its own once a test starts that."""
    owner = Owner(cluster.bootstrap_servers, request.node.originalname, "bob", PATIENT)
    yield owner
    owner.membership.close()


def test_heartbeats_go_on_while_the_owner_works(ann: Owner, bob: Owner) -> None:
    """Ann's session would have ended before it looks after its membership, but bob waits for it."""
    bob.membership.start()
    wait_until(lambda: ann.membership._heartbeats._is_rebalancing)
    wait_until(lambda: not ann.membership.is_surely_in)
    assert bob.names == set()
    ann.membership.poll()
    wait_until(lambda: bob.names == {"ann", "bob"})
    assert ann.names == {"ann", "bob"}
    assert ann.generations[0].member_id == ann.generations[1].member_id
    assert ann.events == ["rebalancing", "assigned"] * 2


@pytest.mark.parametrize("ann", [IMPATIENT], indirect=True)
def test_a_member_leaves_whose_owner_is_busy_for_too_long(ann: Owner, bob: Owner) -> None:
    wait_until(lambda: ann.membership._heartbeats._failure is not None)
    bob.membership.start()
    wait_until(lambda: bob.names == {"bob"})
    ann.membership.poll()
    wait_until(lambda: bob.names == {"ann", "bob"})
    assert ann.generations[0].member_id != ann.generations[1].member_id


def test_joining_can_be_given_up(ann: Owner, bob: Owner) -> None:
    """Ann does not join again, so bob's JoinGroup waits."""
    polling = threading.Thread(target=bob.membership.poll)
    polling.start()
    wait_until(lambda: ann.membership._heartbeats._is_rebalancing)
    bob.membership.stop()
    polling.join(30)
    assert not polling.is_alive()
    assert bob.events == ["rebalancing"]


def test_a_member_joins_again_on_request(ann: Owner) -> None:
    ann.membership.request_rejoin("a test wants it")
    ann.membership.poll()
    assert [joined.generation for joined in ann.generations] == [1, 2]
    ann.membership.wake()
    ann.membership.poll()
    ann.membership.poll(0.0)
    assert ann.events == ["rebalancing", "assigned"] * 2
    ann.membership.leave("a test wants it")
    assert ann.membership.joined is None
    ann.membership.poll()
    assert ann.events == ["rebalancing", "assigned"] * 3
    assert {joined.protocol for joined in ann.generations} == {"plain"}
