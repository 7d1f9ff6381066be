"""Herders on a real node: connectors and tasks in all their states, on one worker and on several."""

import uuid
from collections.abc import Callable, Iterator

import pytest
from recording_runtime import Worker, worker

from penstock.client.config import ClientConfig
from penstock.connect.errors import ConnectError
from penstock.connect.herding.entities import ConnectorStateInfo, ConnectorType, Properties
from penstock.connect.herding.errors import (
    AlreadyExists,
    BadRequest,
    NotAssigned,
    NotFound,
    NotLeader,
    RebalanceNeeded,
    WrongWorker,
)
from penstock.connect.stores import (
    Change,
    ConfigStore,
    ConnectorOffset,
    RestartRequest,
    SessionKeyUpdated,
    TargetState,
    config_topic,
    leader_transactional_id,
)
from penstock.connect.task_id import ConnectorTaskId
from penstock.testing import Cluster
from waiting import wait_until

LIMIT_S = 60.0
Start = Callable[..., Worker]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
    with Cluster(settings) as cluster:
        yield cluster


@pytest.fixture
def start(cluster: Cluster) -> Iterator[Start]:
    """Starts workers of one group, and closes them."""
    group_id = f"herd-{uuid.uuid4().hex}"
    workers: list[Worker] = []

    def start_one(**settings: bool | int) -> Worker:
        workers.append(worker(cluster.bootstrap_servers, group_id, **settings))  # type: ignore[arg-type]
        wait_until(lambda: workers[-1].herder.is_ready)
        return workers[-1]

    yield start_one
    for each in workers:
        each.close()
        assert each.herder.failure is None
        assert not each.runtime.connectors
        assert not each.runtime.tasks


def config(name: str, tasks: int = 2, **others: str) -> Properties:
    return {"name": name, "connector.class": "Recorded", "tasks": str(tasks), **others}


def create(one: Worker, name: str, tasks: int = 2, state: TargetState | None = None, **others: str) -> None:
    created = one.herder.put_connector_config(name, config(name, tasks, **others), state, may_replace=False)
    assert created.result(LIMIT_S).is_new


def states(one: Worker, name: str) -> tuple[str, ...]:
    """The states of a connector and its tasks; none if they are unknown."""
    try:
        found: ConnectorStateInfo = one.herder.connector_status(name)
    except NotFound:
        return ()
    return (found.connector.state, *(found.tasks[number].state for number in sorted(found.tasks)))


def running(*workers: Worker) -> list[str]:
    return sorted(
        [name for each in workers for name in each.runtime.connectors]
        + [str(task) for each in workers for task in each.runtime.tasks]
    )


def test_one_worker_runs_a_connector_through_all_its_states(start: Start) -> None:
    one = start()
    herder = one.herder
    create(one, "c")
    wait_until(lambda: states(one, "c") == ("RUNNING", "RUNNING", "RUNNING"))
    assert running(one) == ["c", "c-0", "c-1"]
    assert herder.connector_info_now("c").type is ConnectorType.SOURCE
    wait_until(lambda: settled(one, "c") == [{"number": "0"}, {"number": "1"}])
    with pytest.raises(AlreadyExists):
        herder.put_connector_config("c", config("c"), may_replace=False).result(LIMIT_S)

    herder.pause_connector("c")
    wait_until(lambda: states(one, "c") == ("PAUSED", "PAUSED", "PAUSED"))
    herder.resume_connector("c")
    wait_until(lambda: states(one, "c") == ("RUNNING", "RUNNING", "RUNNING"))

    herder.stop_connector("c").result(LIMIT_S)
    wait_until(lambda: states(one, "c") == ("STOPPED",))
    wait_until(lambda: running(one) == ["c"])
    herder.resume_connector("c")
    wait_until(lambda: states(one, "c") == ("RUNNING", "RUNNING", "RUNNING"))

    patched = herder.patch_connector_config("c", {"tasks": "3", "connector.class": None}).result(LIMIT_S)
    assert not patched.is_new
    assert patched.connector.config == {"name": "c", "tasks": "3"}
    wait_until(lambda: running(one) == ["c", "c-0", "c-1", "c-2"])
    wait_until(lambda: states(one, "c") == ("RUNNING",) * 4)

    herder.delete_connector("c").result(LIMIT_S)
    wait_until(lambda: running(one) == [])
    wait_until(lambda: states(one, "c") == ())
    assert herder.connectors() == []
    with pytest.raises(NotFound):
        herder.connector_info_now("c")


def settled(one: Worker, name: str) -> list[Properties] | None:
    """The configurations of a connector's tasks; None while the group is about to rebalance."""
    try:
        return [task.config for task in one.herder.task_configs(name).result(LIMIT_S)]
    except RebalanceNeeded:
        return None


def test_patches_at_the_same_time_lose_nothing(start: Start) -> None:
    one = start()
    create(one, "c")
    wait_until(lambda: running(one) == ["c", "c-0", "c-1"])
    patches: list[Properties] = [{f"key{number}": str(number)} for number in range(6)]
    patching = [one.herder.patch_connector_config("c", patch) for patch in patches]
    for each in patching:
        each.result(LIMIT_S)
    patched = one.herder.connector_info_now("c").config
    assert all(patched.items() >= patch.items() for patch in patches)


def test_refusals(start: Start) -> None:
    one = start()
    herder = one.herder
    with pytest.raises(BadRequest, match="contains the following 1 error"):
        herder.put_connector_config("c", {"name": "c"}, may_replace=True).result(LIMIT_S)
    for refused in (
        herder.connector_info("absent"),
        herder.delete_connector("absent"),
        herder.stop_connector("absent"),
        herder.task_configs("absent"),
        herder.restart_connector("absent"),
        herder.restart_task(ConnectorTaskId("absent", 0)),
        herder.restart_connector_and_tasks(RestartRequest("absent")),
        herder.connector_offsets("absent"),
        herder.reset_connector_offsets("absent"),
        herder.patch_connector_config("absent", {}),
    ):
        with pytest.raises(NotFound):
            refused.result(LIMIT_S)
    with pytest.raises(NotFound):
        herder.pause_connector("absent")


def test_initial_states_and_restarts(start: Start) -> None:
    one = start()
    create(one, "paused", state=TargetState.PAUSED)
    create(one, "c", tasks=1)
    wait_until(lambda: states(one, "paused") == ("PAUSED",))
    wait_until(lambda: states(one, "c") == ("RUNNING", "RUNNING"))
    one.runtime.starts.clear()
    wait_until(lambda: settled(one, "c") is not None)
    one.herder.restart_connector("c").result(LIMIT_S)
    one.herder.restart_task(ConnectorTaskId("c", 0)).result(LIMIT_S)
    assert one.runtime.starts == ["c", "c-0"]
    planned = one.herder.restart_connector_and_tasks(RestartRequest("c", include_tasks=True)).result(LIMIT_S)
    assert (planned.connector.state, planned.tasks[0].state) == ("RESTARTING", "RESTARTING")
    wait_until(lambda: one.runtime.starts == ["c", "c-0"] * 2)
    wait_until(lambda: states(one, "c") == ("RUNNING", "RUNNING"))
    failed = RestartRequest("c", only_failed=True)

    def planned_state() -> str:
        return one.herder.restart_connector_and_tasks(failed).result(LIMIT_S).connector.state

    wait_until(lambda: planned_state() == "RUNNING")
    assert one.runtime.starts == ["c", "c-0"] * 2


def test_failures_are_reported_with_traces_and_restarted_if_asked_for(start: Start) -> None:
    one = start()
    create(one, "c", fail="start")
    create(one, "t", tasks=1, fail="task")
    wait_until(lambda: states(one, "c") == ("FAILED",))
    wait_until(lambda: states(one, "t") == ("RUNNING", "FAILED"))
    assert one.herder.connector_status("c").connector.trace == "it cannot start"
    trace = one.herder.task_status(ConnectorTaskId("t", 0)).trace
    assert trace is not None
    assert "ValueError: it cannot start" in trace
    again = config("t", 1, fail="task", **{"restart.backoff.max.ms": "10"})
    one.herder.put_connector_config("t", again, may_replace=True).result(LIMIT_S)
    wait_until(lambda: one.runtime.starts.count("t-0") > 5)
    assert one.runtime.starts.count("c") == 1


def test_a_connector_that_cannot_configure_its_tasks_is_asked_again(start: Start) -> None:
    one = start()
    create(one, "c", fail="configs")
    wait_until(lambda: states(one, "c") == ("RUNNING",))
    one.runtime.connectors["c"] = config("c", 1)
    wait_until(lambda: states(one, "c") == ("RUNNING", "RUNNING"))


def test_offsets_change_only_while_a_connector_is_stopped(start: Start) -> None:
    one = start(exactly_once=True)
    create(one, "c", tasks=2)
    wait_until(lambda: states(one, "c") == ("RUNNING",) * 3)
    offsets = [ConnectorOffset({"file": "f"}, {"position": 3})]
    wait_until(lambda: settled(one, "c") is not None)
    with pytest.raises(BadRequest, match="must be in the STOPPED state"):
        one.herder.alter_connector_offsets("c", offsets).result(LIMIT_S)
    one.herder.stop_connector("c").result(LIMIT_S)
    wait_until(lambda: running(one) == ["c"])
    wait_until(lambda: settled(one, "c") is not None)
    assert one.herder.alter_connector_offsets("c", offsets).result(LIMIT_S) == "altered"
    assert one.herder.connector_offsets("c").result(LIMIT_S) == offsets
    assert one.herder.reset_connector_offsets("c").result(LIMIT_S) == "reset"
    assert one.herder.connector_offsets("c").result(LIMIT_S) == []


def test_two_workers_share_work_and_name_each_other(start: Start) -> None:
    one, two = start(), start()
    create(one, "c", tasks=4)
    everything = ["c", "c-0", "c-1", "c-2", "c-3"]
    wait_until(lambda: running(one, two) == everything)
    wait_until(lambda: states(two, "c") == ("RUNNING",) * 5)
    assert len(one.runtime.tasks) == len(two.runtime.tasks) == 2
    with pytest.raises(NotLeader) as refused:
        two.herder.delete_connector("c").result(LIMIT_S)
    assert refused.value.forward_url == one.url
    theirs = next(iter(two.runtime.tasks))
    wait_until(lambda: isinstance(restart_error(one, theirs), NotAssigned))
    error = restart_error(one, theirs)
    assert isinstance(error, NotAssigned)
    assert error.forward_url == two.url

    two.close()
    wait_until(lambda: running(one) == everything)
    wait_until(lambda: states(one, "c") == ("RUNNING",) * 5)
    alone = {one.url.removeprefix("http://").rstrip("/")}
    wait_until(lambda: {each.worker_id for each in one.herder.connector_status("c").tasks.values()} == alone)


def restart_error(one: Worker, task: ConnectorTaskId) -> BaseException | None:
    error = one.herder.restart_task(task).exception(LIMIT_S)
    assert error is None or isinstance(error, WrongWorker | RebalanceNeeded)
    return error


def test_producers_of_former_tasks_are_fenced_once_for_all_tasks(start: Start) -> None:
    one = start(exactly_once=True)
    create(one, "c", tasks=3)
    wait_until(lambda: running(one) == ["c", "c-0", "c-1", "c-2"])
    for task in one.runtime.tasks.values():
        task.fence()
        task.verify()
    assert one.runtime.fenced == []  # nothing has run before
    former = list(one.runtime.tasks.values())
    one.herder.put_connector_config("c", config("c", 2), may_replace=True).result(LIMIT_S)
    wait_until(lambda: running(one) == ["c", "c-0", "c-1"])
    for task in one.runtime.tasks.values():
        task.fence()
        task.verify()
    assert one.runtime.fenced == [("c", 3)]
    with pytest.raises(ConnectError, match=r"a new set of task configs|stopped before"):
        former[0].verify()
    with pytest.raises(ConnectError, match=r"already been revoked|a new set of task configs|stopped before"):
        former[2].verify()


def test_a_task_that_was_stopped_does_not_fence_its_successor(start: Start) -> None:
    one = start(exactly_once=True)
    create(one, "c")
    task = ConnectorTaskId("c", 0)
    wait_until(lambda: running(one) == ["c", "c-0", "c-1"])
    former = one.runtime.tasks[task]
    one.herder.restart_task(task).result(LIMIT_S)
    successor = one.runtime.tasks[task]
    for step in (former.fence, former.verify):
        with pytest.raises(ConnectError, match="stopped before"):
            step()
    successor.fence()
    successor.verify()


@pytest.fixture
def follow(cluster: Cluster) -> Iterator[Callable[..., ConfigStore]]:
    """Makes another store of a group's config topic, which follows it from now on."""
    stores: list[ConfigStore] = []

    def make(group_id: str, seen: list[Change], *, fences: bool = False) -> ConfigStore:
        client = ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap_servers})
        transactional_id = leader_transactional_id(group_id) if fences else None
        topic = config_topic(f"{group_id}-configs")
        stores.append(ConfigStore(client, topic, seen.append, transactional_id=transactional_id))
        stores[-1].start(LIMIT_S)
        return stores[-1]

    yield make
    for store in stores:
        store.close()


def test_leaders_replace_session_keys(start: Start, follow: Callable[..., ConfigStore]) -> None:
    one, seen = start(key_ttl_ms=100), list[Change]()
    follow(one.group_id, seen)
    wait_until(lambda: sum(isinstance(change, SessionKeyUpdated) for change in seen) >= 2)
    keys = {change.session_key.key for change in seen if isinstance(change, SessionKeyUpdated)}
    assert len(keys) >= 2


def test_a_leader_that_was_fenced_claims_its_topic_again(
    start: Start, follow: Callable[..., ConfigStore]
) -> None:
    one = start(exactly_once=True)
    create(one, "c")
    wait_until(lambda: states(one, "c") == ("RUNNING",) * 3)
    follow(one.group_id, [], fences=True).claim_write_privileges()
    with pytest.raises(ConnectError, match="can be safely retried"):
        one.herder.delete_connector("c").result(LIMIT_S)
    one.herder.delete_connector("c").result(LIMIT_S)
    wait_until(lambda: running(one) == [])


@pytest.mark.long
def test_a_worker_that_has_lost_its_group_stops_its_work(cluster: Cluster, start: Start) -> None:
    one = start()
    create(one, "c")
    everything = ["c", "c-0", "c-1"]
    wait_until(lambda: running(one) == everything)
    cluster.pause()
    try:
        wait_until(lambda: running(one) == [])
    finally:
        cluster.resume()
    wait_until(lambda: running(one) == everything)
    wait_until(lambda: states(one, "c") == ("RUNNING",) * 3)


def test_a_worker_that_cannot_read_the_config_topic_gives_its_work_up(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = start()
    create(one, "c")
    everything = ["c", "c-0", "c-1"]
    wait_until(lambda: running(one) == everything)
    loop = one.herder._loop
    with monkeypatch.context() as patched:
        patched.setattr(loop.configurations, "refresh", lambda: False)
        loop._must_refresh = True  # as after a write that has failed
        loop.group.wake()
        wait_until(lambda: running(one) == [])
    wait_until(lambda: running(one) == everything)


def test_loggers_are_set_on_all_workers(start: Start) -> None:
    one = start()
    name = f"penstock.tests.{uuid.uuid4().hex}"
    assert one.herder.logger_level(name) is None
    one.herder.set_cluster_logger_level(name, "DEBUG")
    wait_until(lambda: one.herder.logger_level(name))
    level = one.herder.logger_level(name)
    assert level is not None
    assert level.level == "DEBUG"
    assert one.herder.set_worker_logger_level(name, "WARN") == [name]
    assert one.herder.logger_levels()[name].level == "WARN"
