"""Workers of one Connect group on a real node: they share tasks, leave, fail, return and catch up."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from connect_worker import CONFIGURED, MAX_DELAY_MS, TASKS, Clock, Worker

from penstock.connect.group.assignment import CONFIG_MISMATCH, Configured, ConnectProtocol
from penstock.testing import Cluster
from waiting import wait_until

EVERYTHING = {"orders", *map(str, TASKS)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
    with Cluster(settings) as cluster:
        yield cluster


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    """The workers that a test starts; the fixture closes them and checks what they have run."""
    workers: list[Worker] = []
    yield workers
    for worker in workers:
        worker.close()
    assert [worker.violations for worker in workers if worker.violations] == []
    assert not any(worker.running for worker in workers)


def is_shared(workers: list[Worker], everything: set[str] = EVERYTHING) -> bool:
    """Whether the workers run everything once, no worker more than one task more than another."""
    running = [worker.running for worker in workers]
    counts = [sum("-" in item for item in items) for items in running]
    is_even = max(counts) - min(counts) <= 1
    return sum(map(len, running)) == len(everything) and set().union(*running) == everything and is_even


def test_a_killed_workers_tasks_wait_for_its_return(
    cluster: Cluster, workers: list[Worker], clock: Clock
) -> None:
    servers, started = cluster.bootstrap_servers, Counter[str]()
    workers.append(Worker(servers, "http://one:8083/", clock, started=started))
    wait_until(lambda: is_shared(workers))
    assert workers[0].group.is_leader
    workers.append(Worker(servers, "http://two:8083/", clock, started=started))
    wait_until(lambda: is_shared(workers))

    program = [sys.executable, str(Path(__file__).with_name("connect_worker.py")), servers]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        theirs: set[str] = set()
        try:
            while len(theirs) < 3:
                theirs = {item for item in child.stdout.readline().split() if "-" in item}
            wait_until(lambda: is_shared(workers, EVERYTHING - theirs))
        finally:
            child.kill()

    wait_until(lambda: all(worker.delay_ms == MAX_DELAY_MS for worker in workers))
    assert is_shared(workers, EVERYTHING - theirs)
    workers.append(Worker(servers, "http://three:8083/", clock, started=started))
    wait_until(lambda: len(workers[2].received) == 1)
    assert workers[2].running == set()

    clock.now_ms += MAX_DELAY_MS
    workers[0].group.wake()
    wait_until(lambda: is_shared(workers))
    assert {item for item in workers[2].running if "-" in item} == theirs
    assert [worker.delay_ms for worker in workers] == [0, 0, 0]
    owners = {str(task): workers[0].group.owner_url(task) for task in TASKS}
    assert {item for item, url in owners.items() if url == "http://three:8083/"} == theirs
    assert {worker.group.leader_url for worker in workers} == {"http://one:8083/"}


def test_a_leader_that_lags_behind_reads_the_config_topic(
    cluster: Cluster, workers: list[Worker], clock: Clock
) -> None:
    more = Configured(9, {**CONFIGURED.tasks, "bills": []})
    servers = cluster.bootstrap_servers
    workers.append(Worker(servers, "http://one:8083/", clock, latest=more, group_id="lagging"))
    wait_until(lambda: is_shared(workers))
    workers.append(Worker(servers, "http://two:8083/", clock, configured=more, group_id="lagging"))
    wait_until(lambda: is_shared(workers, {*EVERYTHING, "bills"}))
    assert any(each.error == CONFIG_MISMATCH for each in workers[0].received)
    assert workers[0].refreshes == 1
    assert workers[1].refreshes == 0


def test_a_worker_that_cannot_read_the_config_topic_leaves_and_keeps_its_work(
    cluster: Cluster, workers: list[Worker], clock: Clock
) -> None:
    servers, latest = cluster.bootstrap_servers, Configured(9, CONFIGURED.tasks)
    workers.append(Worker(servers, "http://one:8083/", clock, group_id="unsynced"))
    wait_until(lambda: is_shared(workers))
    workers.append(Worker(servers, "http://two:8083/", clock, latest=latest, group_id="unsynced"))
    wait_until(lambda: is_shared(workers))
    leader, worker = workers
    worker.can_refresh = False
    leader.configured = latest
    leader.group.request_rejoin("connectors have changed")
    wait_until(lambda: worker.refreshes >= 2)
    assert is_shared(workers)
    worker.can_refresh = True
    wait_until(lambda: worker.configured == latest)
    wait_until(lambda: worker.group.is_settled and is_shared(workers))


@pytest.mark.parametrize("other", [ConnectProtocol.COMPATIBLE, ConnectProtocol.EAGER])
def test_a_group_speaks_what_all_its_workers_speak(
    cluster: Cluster, workers: list[Worker], clock: Clock, other: ConnectProtocol
) -> None:
    servers, group_id = cluster.bootstrap_servers, f"mixed-{other.name}"
    workers.append(Worker(servers, "http://one:8083/", clock, protocol=other, group_id=group_id))
    wait_until(lambda: is_shared(workers))
    workers.append(Worker(servers, "http://two:8083/", clock, group_id=group_id))
    wait_until(lambda: is_shared(workers))
    assert [worker.group.protocol for worker in workers] == [other, other]


def test_a_worker_that_leaves_frees_its_work_after_the_delay(
    cluster: Cluster, workers: list[Worker], clock: Clock
) -> None:
    servers = cluster.bootstrap_servers
    workers += [Worker(servers, f"http://{n}:8083/", clock, group_id="leaving") for n in range(2)]
    wait_until(lambda: is_shared(workers))
    workers.pop(0 if workers[1].group.is_leader else 1).close()
    wait_until(lambda: workers[0].delay_ms == MAX_DELAY_MS)
    clock.now_ms += MAX_DELAY_MS
    workers[0].group.wake()
    wait_until(lambda: is_shared(workers))


def test_a_worker_stops_everything_when_its_session_has_expired(
    cluster: Cluster, workers: list[Worker], clock: Clock
) -> None:
    servers = cluster.bootstrap_servers
    expiring = Worker(servers, "http://one:8083/", clock, group_id="expiring", session_timeout_ms=1_500)
    workers.append(expiring)
    wait_until(lambda: is_shared(workers))
    cluster.pause()
    try:
        wait_until(lambda: not workers[0].running)
    finally:
        cluster.resume()
    wait_until(lambda: workers[0].delay_ms == MAX_DELAY_MS)  # it came back as a new member
    clock.now_ms += MAX_DELAY_MS
    workers[0].group.wake()
    wait_until(lambda: is_shared(workers))
