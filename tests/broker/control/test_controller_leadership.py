"""The controller across leader changes of the quorum: pending decisions, discarded state and timers."""

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine, Sequence
from functools import partial

import pytest

from penstock.broker.control.broker_watch import LOOK_INTERVAL_S
from penstock.broker.control.controller import RECORDS_PER_BATCH, Controller
from penstock.broker.control.controller_tasks import CHECKS_PER_SESSION
from penstock.broker.control.metadata_follower import MetadataFollower
from penstock.broker.peers.link import LinkEnd
from penstock.broker.quorum.listener import CommittedBatch, SnapshotId
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.features import bootstrap_records
from penstock.metadata.controller.state import ControllerState, Decision
from penstock.metadata.image import MetadataDelta
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    Message,
    NoOpRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from penstock.testing.simulator.loop import VirtualLoop
from virtual_time import run_virtually
from waiting import until

ME, OTHER = 1, 2
SESSION_S = 1.0
"""The session of a broker where a test needs one to expire."""


class ScriptedQuorum:
    """A metadata log whose commits the test triggers."""

    def __init__(self) -> None:
        self.log: list[Message] = []
        self.batches: list[int] = []
        self.committed = 0
        self.epoch = 0
        self.resigned: list[int] = []
        self.voter_ids = frozenset((ME, OTHER))
        self.kraft_version = 0

    @property
    def log_end_offset(self) -> int:
        return len(self.log)

    async def bootstrap_records(self) -> list[Message]:
        await asyncio.sleep(0)
        return bootstrap_records()

    def append(self, records: Sequence[Message], metadata_version: int) -> int:
        self.log += records
        self.batches.append(len(records))
        return len(self.log)

    def resign(self, epoch: int, reason: str) -> None:
        self.resigned.append(epoch)

    def upgrade_kraft_version(self, kraft_version: int, *, validate_only: bool) -> None:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "not in this test")


def virtual_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


class Stage:
    """One node's follower and controller on a scripted quorum."""

    def __init__(self, **properties: str) -> None:
        self.loop = virtual_loop()
        self.config = BrokerConfig.single_node(
            {"log.dirs": "/data", **{key.replace("_", "."): value for key, value in properties.items()}}
        )
        self.node_id = ME
        self.cluster_id = "a-cluster"
        self.incarnation_id = bytes(16)
        self.environment = self
        self.rng = random.Random(1)
        self.wire = Wire(OSError("no network"))
        self.led_since_s = 0.0
        self.quorum = ScriptedQuorum()
        self.metadata = MetadataFollower(self.loop)
        self.controller = Controller(self, self.quorum, self.metadata)  # type: ignore[arg-type]

    async def dial_broker(self, host: str, port: int, end: LinkEnd) -> "Wire":
        return await self.wire.dial(host, port, end)

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self.rng.getrandbits(128))

    def commit(self, up_to: int | None = None) -> None:
        """Deliver all newly committed records to the follower as one batch."""
        end = len(self.quorum.log) if up_to is None else up_to
        records = self.quorum.log[self.quorum.committed : end]
        first, self.quorum.committed = self.quorum.committed, end
        if records:
            self.metadata.handle_commit([CommittedBatch(first, end - 1, self.quorum.epoch, 0, 1, records)])

    async def lead(self) -> None:
        """Make this node the leader and commit its first records."""
        self.quorum.epoch += 1
        self.led_since_s = self.loop.time()
        self.metadata.handle_leader_change(ME, self.quorum.epoch)
        await turns()
        assert self.controller.is_active
        self.commit()

    def lose(self, uncommitted_too: bool = True) -> None:
        """Make another node the leader and discard uncommitted records."""
        self.quorum.epoch += 1
        if uncommitted_too:
            del self.quorum.log[self.quorum.committed :]
        self.metadata.handle_leader_change(OTHER, self.quorum.epoch)

    async def seconds_until_fenced(self) -> float:
        """Commit all writes of the controller until it fences the other broker; return the time since the
        election.
        """
        while not self.metadata.image.brokers[OTHER].fenced:
            await asyncio.sleep(0.005)
            self.commit()
        return self.loop.time() - self.led_since_s

    def submit(self, *records: Message, is_atomic: bool = True) -> "asyncio.Task[str]":
        def decide(_: ControllerState) -> Decision[str]:
            return Decision(list(records), "done", is_atomic)

        return self.loop.create_task(self.controller.submit(decide))


def on_stage(story: Callable[[Stage], Coroutine[object, object, None]], **properties: str) -> None:
    async def play() -> None:
        stage = Stage(**properties)
        try:
            await story(stage)
        finally:
            await stage.controller.close()

    run_virtually(play())


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=name.encode().rjust(16, b"_"))


async def not_controller(task: "asyncio.Task[str]") -> None:
    with pytest.raises(KafkaError) as refused:
        await task
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_only_the_leader_decides() -> None:
    async def story(stage: Stage) -> None:
        await not_controller(stage.submit(topic("a")))
        assert stage.quorum.log == []
        await stage.lead()
        deciding = stage.submit(topic("a"))
        await turns()
        assert not deciding.done(), "it is not committed"
        stage.commit()
        assert await deciding == "done"

    on_stage(story)


def test_a_request_waits_for_a_controller_that_is_taking_over() -> None:
    async def story(stage: Stage) -> None:
        stage.metadata.handle_leader_change(ME, 1)
        deciding = stage.submit(topic("a"))
        await turns()
        stage.commit()
        assert await deciding == "done"
        assert stage.metadata.image.metadata_version == 30, "the bootstrap records came first"
        assert isinstance(stage.quorum.log[-1], TopicRecord)

    on_stage(story)


def test_what_is_pending_fails_when_another_leads_and_is_forgotten() -> None:
    async def story(stage: Stage) -> None:
        await stage.lead()
        lost = stage.submit(topic("lost"))
        await turns()
        stage.lose()
        await not_controller(lost)
        await not_controller(stage.submit(topic("b")))
        await stage.lead()
        seen: list[bool] = []

        def decide(state: ControllerState) -> Decision[None]:
            seen.append("lost" in state.image.topics.by_name)
            return Decision([topic("lost")], None)

        deciding = stage.loop.create_task(stage.controller.submit(decide))
        await turns()
        stage.commit()
        await deciding
        assert seen == [False]

    on_stage(story)


def test_an_answer_waits_for_what_it_saw() -> None:
    """The answer may depend on state that is not committed yet."""

    async def story(stage: Stage) -> None:
        await stage.lead()
        first, second = stage.submit(topic("a")), stage.submit()
        await turns()
        assert not second.done()
        stage.commit()
        await asyncio.gather(first, second)
        assert await stage.submit() == "done", "nothing is pending: at once"

    on_stage(story)


def test_a_decision_is_one_batch_unless_it_may_be_several() -> None:
    async def story(stage: Stage) -> None:
        await stage.lead()
        stage.quorum.batches.clear()
        records = [NoOpRecord()] * (RECORDS_PER_BATCH + 1)
        tasks = [stage.submit(*records), stage.submit(*records, is_atomic=False)]
        await turns()
        stage.commit(len(stage.quorum.log) - 1)
        await turns()
        assert [task.done() for task in tasks] == [True, False]
        stage.commit()
        await asyncio.gather(*tasks)
        assert stage.quorum.batches == [RECORDS_PER_BATCH + 1, RECORDS_PER_BATCH, 1]

    on_stage(story)


def test_a_decision_that_fails_is_no_answer_and_no_record() -> None:
    async def story(stage: Stage) -> None:
        await stage.lead()
        written = len(stage.quorum.log)

        def decide(_: ControllerState) -> Decision[None]:
            raise ZeroDivisionError("a bug")

        with pytest.raises(KafkaError, match="a bug") as failed:
            await stage.controller.submit(decide)
        assert failed.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert len(stage.quorum.log) == written
        assert await stage.submit() == "done"

    on_stage(story)


def test_a_controller_that_cannot_replay_its_records_resigns() -> None:
    async def story(stage: Stage) -> None:
        await stage.lead()
        with pytest.raises(KeyError):
            await stage.submit(BrokerRegistrationChangeRecord(broker_id=9))
        assert stage.quorum.resigned == [stage.quorum.epoch]

    on_stage(story)


def test_a_leader_that_cannot_take_over_makes_room_for_another() -> None:
    """Otherwise no controller could decide while it leads."""

    async def story(stage: Stage) -> None:
        append = stage.quorum.append

        def fails(_records: Sequence[Message], _metadata_version: int) -> int:
            raise ZeroDivisionError("a bug")

        stage.quorum.append = fails  # type: ignore[method-assign]
        stage.metadata.handle_leader_change(ME, 1)
        await turns()
        assert not stage.controller.is_active
        assert stage.quorum.resigned == [1]
        stage.lose()
        stage.quorum.append = append  # type: ignore[method-assign]
        await stage.lead()
        assert await stage.submit() == "done"

    on_stage(story)


def test_a_controller_that_is_elected_again_while_it_takes_over_does_so() -> None:
    async def story(stage: Stage) -> None:
        stage.metadata.handle_leader_change(ME, 1)
        stage.metadata.handle_leader_change(ME, 2)
        await turns()
        assert stage.controller.is_active
        stage.commit()
        assert await stage.submit() == "done"

    on_stage(story)


def test_a_metadata_transaction_left_open_is_aborted() -> None:
    async def story(stage: Stage) -> None:
        await stage.lead()
        stage.lose()
        stage.quorum.log += [BeginTransactionRecord(name="n"), topic("half")]
        stage.commit()
        await stage.lead()
        assert not stage.metadata.image.in_transaction
        assert "half" not in stage.metadata.image.topics.by_name
        assert type(stage.quorum.log[-1]).__name__ == "AbortTransactionRecord"

    on_stage(story)


# Timers


def registration(broker_id: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id, broker_epoch=broker_id, incarnation_id=bytes([broker_id] * 16), fenced=False
    )


def test_a_silent_broker_is_fenced_on_time() -> None:
    async def story(stage: Stage) -> None:
        await stage.lead()
        stage.quorum.log.append(registration(OTHER))
        stage.commit()
        stage.lose()
        await stage.lead()
        fenced_s = await stage.seconds_until_fenced()
        assert SESSION_S <= fenced_s <= SESSION_S * (1 + 1 / CHECKS_PER_SESSION) + 0.01

    on_stage(story, broker_session_timeout_ms="1000", metadata_max_idle_interval_ms="0")


def test_a_controller_that_was_stopped_blames_no_broker() -> None:
    """It received no heartbeats for a session because it was stopped itself."""

    async def story(stage: Stage) -> None:
        await stage.lead()
        stage.quorum.log.append(registration(OTHER))
        stage.commit()
        stage.lose()
        await stage.lead()
        stage.loop.block(1.25 * SESSION_S)
        fenced_s = await stage.seconds_until_fenced()
        assert fenced_s > 2 * SESSION_S, "the time for which it was stopped counts for no session"
        assert fenced_s < 2.5 * SESSION_S, "a session is extended, not begun again"

    on_stage(story, broker_session_timeout_ms="1000", metadata_max_idle_interval_ms="0")


class Wire:
    """A connection to the other broker, until the test closes it; later connection attempts get `answer`."""

    def __init__(self, answer: OSError) -> None:
        self.dials = 0
        self._answer = answer
        self._end: LinkEnd | None = None
        self._is_lost = False

    async def dial(self, host: str, port: int, end: LinkEnd) -> "Wire":
        self.dials += 1
        await asyncio.sleep(0)
        if self._is_lost:
            raise self._answer
        assert (host, port) == ("there", 9092)
        self._end = end
        return self

    def send(self, frame: object) -> None:
        raise AssertionError("nothing is said on it")

    def close(self) -> None:
        self._end = None

    def refuse(self) -> None:
        """Close the connection and refuse new ones from now on."""
        self._is_lost = True
        if self._end is not None:
            self._end.link_lost("closed by the other side")


def listening(broker_id: int) -> RegisterBrokerRecord:
    record = registration(broker_id)
    record.end_points = [RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="there", port=9092)]
    return record


def test_a_broker_whose_process_has_ended_is_fenced_at_once() -> None:
    """The session timeout is longer than the test."""

    async def story(stage: Stage) -> None:
        stage.wire = wire = Wire(ConnectionRefusedError("nobody listens"))
        stage.quorum.log.append(listening(OTHER))
        stage.commit()
        await stage.lead()
        await turns()
        assert wire.dials == 1
        assert not stage.metadata.image.brokers[OTHER].fenced
        wire.refuse()
        await turns()
        stage.commit()
        await turns()
        assert stage.metadata.image.brokers[OTHER].fenced
        assert wire.dials == 2

    on_stage(story, broker_session_timeout_ms="1000000", metadata_max_idle_interval_ms="0")


def test_a_network_that_fails_says_nothing_of_a_broker() -> None:
    async def story(stage: Stage) -> None:
        stage.wire = wire = Wire(OSError("no route"))
        stage.quorum.log.append(listening(OTHER))
        stage.commit()
        await stage.lead()
        await turns()
        wire.refuse()
        await turns()
        stage.commit()
        assert wire.dials == 2, "it was tried"
        assert not stage.metadata.image.brokers[OTHER].fenced

    on_stage(story, broker_session_timeout_ms="1000000", metadata_max_idle_interval_ms="0")


def test_a_broker_that_was_never_reached_has_to_be_silent_too() -> None:
    """Its heartbeats may arrive even if this controller cannot connect to it."""

    async def story(stage: Stage) -> None:
        stage.wire = wire = Wire(ConnectionRefusedError("nobody listens"))
        wire.refuse()
        stage.quorum.log.append(listening(OTHER))
        stage.commit()
        await stage.lead()
        await turns()
        stage.commit()
        assert wire.dials == 1
        assert not stage.metadata.image.brokers[OTHER].fenced
        fenced_s = await stage.seconds_until_fenced()
        assert 0.1 + LOOK_INTERVAL_S < fenced_s <= 0.1 + 2 * LOOK_INTERVAL_S + 0.01

    on_stage(
        story,
        broker_heartbeat_interval_ms="100",
        broker_session_timeout_ms="1000000",
        metadata_max_idle_interval_ms="0",
    )


def test_an_idle_log_goes_on_where_others_follow_it() -> None:
    async def story(stage: Stage) -> None:
        await stage.lead()
        await asyncio.sleep(0.05)
        assert not any(isinstance(record, NoOpRecord) for record in stage.quorum.log), "nobody else is there"
        stage.lose()
        stage.quorum.log.append(registration(OTHER))
        stage.commit()
        await stage.lead()
        await until(lambda: any(isinstance(record, NoOpRecord) for record in stage.quorum.log))
        stage.commit()
        stage.lose()
        written = len(stage.quorum.log)
        await asyncio.sleep(0.05)
        assert len(stage.quorum.log) == written, "a controller that was"

    on_stage(story, metadata_max_idle_interval_ms="10")


# The follower


def test_a_snapshot_replaces_the_image_and_tells_what_is_different() -> None:
    async def story(stage: Stage) -> None:
        follower = stage.metadata
        image = follower.image
        told: list[MetadataDelta] = []
        follower.on_image_change(told.append)
        stage.quorum.log += [*bootstrap_records(), topic("stays"), topic("goes"), registration(ME)]
        stage.commit()
        follower.publish_all()
        assert [t.name for t in told.pop().created_topics] == ["stays", "goes"]
        config = ConfigRecord(resource_type=2, resource_name="stays", name="retention.ms", value="5")
        records = [*bootstrap_records(), topic("stays"), topic("new"), config]
        reached = asyncio.ensure_future(follower.reached(99))
        await turns()
        follower.handle_snapshot(SnapshotId(100, 7), records)
        await reached
        (delta,) = told
        assert follower.image is image
        assert (image.offset, image.epoch) == (99, 7)
        assert sorted(image.topics.by_name) == ["new", "stays"]
        assert [t.name for t in delta.created_topics] == ["new"]
        assert [t.name for t in delta.deleted_topics] == ["goes"]
        assert [resource.name for resource in delta.changed_configs] == ["stays"]
        assert delta.brokers_changed
        assert not delta.features_changed

    on_stage(story)


def test_what_listeners_do_is_waited_for() -> None:
    async def story(stage: Stage) -> None:
        done: list[int] = []

        async def follow(delta: MetadataDelta) -> None:
            await asyncio.sleep(0.01)
            done.append(len(delta.created_topics))
            raise RuntimeError("a listener that fails holds up nobody")

        stage.metadata.on_image_change(follow)
        stage.metadata.publish_all()
        await stage.lead()
        deciding = stage.loop.create_task(
            stage.controller.submit_and_follow(partial(lambda _: Decision([topic("a")], "done")))
        )
        await turns()
        stage.commit()
        assert await deciding == "done"
        assert done[-1] == 1

    on_stage(story)
