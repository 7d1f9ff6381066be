"""The image of configurations, on the histories that its rules are about."""

from typing import Any

from penstock.connect.stores.configs import records
from penstock.connect.stores.configs.image import ConfigImage
from penstock.connect.stores.configs.model import (
    Change,
    ConnectorRemoved,
    ConnectorUpdated,
    SessionKey,
    TargetState,
    TargetStateChanged,
    TasksUpdated,
)
from penstock.connect.stores.key_value import KeyValue
from penstock.connect.task_id import ConnectorTaskId

TWO: list[dict[str, str | None]] = [{"n": "0"}, {"n": "1"}]
CONFIG: dict[str, str | None] = {"name": "c"}


def replayed(*written: KeyValue | list[KeyValue]) -> tuple[ConfigImage, list[Change]]:
    image, changes = ConfigImage(), []
    flat = [each for some in written for each in (some if isinstance(some, list) else [some])]
    for offset, record in enumerate(flat):
        change = image.replay(record.key, record.value, offset)
        if change is not None:
            changes.append(change)
    return image, changes


def test_tasks_wait_for_their_commit() -> None:
    connector, tasks = records.connector_config("c", CONFIG), records.task_configs("c", TWO)
    image, changes = replayed(connector, tasks)
    assert not image.snapshot().task_configs
    image, changes = replayed(connector, tasks, records.tasks_commit("c", 2))
    state, names = image.snapshot(), (ConnectorTaskId("c", 0), ConnectorTaskId("c", 1))
    assert state.task_configs == dict(zip(names, TWO, strict=True))
    assert state.tasks("c") == list(names)
    assert state.applied_connector_configs == {"c": CONFIG}
    assert state.pending_fencing == {"c"}
    assert state.offset == 4
    assert changes == [ConnectorUpdated("c"), TasksUpdated("c", names)]


def test_a_compacted_task_makes_its_connector_inconsistent_until_the_next_set() -> None:
    tasks = records.task_configs("c", TWO)
    history: list[Any] = [records.connector_config("c", CONFIG), tasks[1:], records.tasks_commit("c", 2)]
    image, _ = replayed(*history)
    state = image.snapshot()
    assert state.inconsistent == {"c"}
    assert not state.tasks("c")
    assert not state.task_configs
    image, _ = replayed(*history, tasks, records.tasks_commit("c", 2))
    assert not image.snapshot().inconsistent
    assert len(image.snapshot().tasks("c")) == 2


def test_tasks_without_their_connector_are_dropped() -> None:
    image, changes = replayed(records.task_configs("c", TWO), records.tasks_commit("c", 2))
    assert not image.snapshot().task_counts
    assert not changes


def test_a_removed_connector_takes_its_tasks_along() -> None:
    image, changes = replayed(
        records.connector_config("c", CONFIG, TargetState.PAUSED),
        records.task_configs("c", TWO),
        records.tasks_commit("c", 2),
        records.connector_removal("c"),
    )
    state = image.snapshot()
    assert "c" not in state
    assert (state.task_configs, state.task_counts, state.target_states) == ({}, {}, {})
    assert changes[-1] == ConnectorRemoved("c")


def test_the_initial_state_comes_before_the_connector() -> None:
    written = records.connector_config("c", CONFIG, TargetState.STOPPED)
    assert [each.key for each in written] == [b"target-state-c", b"connector-c"]
    assert written[0].value == b'{"state":"PAUSED","state.v2":"STOPPED"}'
    image, changes = replayed(written)
    assert image.snapshot().target_states == {"c": TargetState.STOPPED}
    assert changes == [ConnectorUpdated("c")]


def test_a_target_state_counts_as_a_change_only_if_it_is_another_one() -> None:
    paused = records.target_state_of("c", TargetState.PAUSED)
    _, changes = replayed(paused, records.connector_config("c", CONFIG), paused)
    assert changes == [ConnectorUpdated("c")]
    _, changes = replayed(records.connector_config("c", CONFIG), paused, paused)
    assert changes == [ConnectorUpdated("c"), TargetStateChanged("c")]


def test_fencing_is_pending_from_a_set_of_tasks_to_their_count() -> None:
    connector, commit = records.connector_config("c", CONFIG), records.tasks_commit("c", 0)
    image, _ = replayed(connector, commit)
    assert image.snapshot().pending_fencing == {"c"}
    image, _ = replayed(connector, commit, records.task_count("c", 3))
    state = image.snapshot()
    assert not state.pending_fencing
    assert state.task_count_records == {"c": 3}


def test_a_session_key_does_not_show_its_secret() -> None:
    key = SessionKey(b"secret", "HmacSHA256", 7)
    image, _ = replayed(records.session_key(key))
    assert image.snapshot().session_key == key
    assert "secret" not in repr(image.snapshot())
