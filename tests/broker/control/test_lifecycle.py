"""A broker's exchanges with a scripted controller, in simulated time."""

import random
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.broker.control.lifecycle import BrokerLifecycle, BrokerState, RegistrationFailed
from penstock.broker.peers import ControllerAddress, ControllerChannel
from penstock.broker.peers.tcp import TcpDial
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.image import BrokerRegistration, MetadataImage
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegisterBrokerRecord,
)
from penstock.protocol.uuids import uuid_from_text, uuid_to_text
from penstock.testing.simulator.loop import VirtualLoop

DIRECTORY = uuid_to_text(b"0123456789abcdef")
WHOLE = b"w" * 16
"""The previous incarnation, which lost no data."""
Heartbeat = BrokerHeartbeatRequest
Answer = BrokerHeartbeatResponse


class World:
    """A broker and its controller; `answer` is the controller's answer to heartbeats."""

    def __init__(self, **properties: str) -> None:
        self.loop = VirtualLoop(random.Random(1))
        self.requests: list[tuple[float, Message]] = []
        self.registrations: list[int] = []
        """The error codes that answer registrations; without one, a registration succeeds."""
        self.answer: Callable[[Heartbeat], Answer | None] = self.good_answer
        self.is_reached = True
        self.unfenced = False
        config = {"log.dirs": "/data", "listeners": "PLAINTEXT://h:9092", "broker.rack": "r"}
        config |= {name.replace("_", "."): value for name, value in properties.items()}
        self.image = MetadataImage()
        self.image.offset = 5
        self.broker = SimpleNamespace(
            node_id=1,
            loop=self.loop,
            config=BrokerConfig.single_node(config),
            cluster_id="c",
            incarnation_id=b"i" * 16,
            image=self.image,
            quorum=SimpleNamespace(leader_high_watermark=6, problem=None),
            logs=SimpleNamespace(
                directory_ids=lambda: [DIRECTORY],
                cordoned=frozenset(),
                is_whole=lambda incarnation_id: incarnation_id == WHOLE,
            ),
            advertised=lambda name: ("h", 9092),
            died=self.loop.create_future(),
        )

    def run(self, scenario: Callable[[BrokerLifecycle], Awaitable[None]]) -> None:
        async def told() -> None:
            channel = ControllerChannel(
                1,
                TcpDial(),
                lambda: ControllerAddress(1, "", 0) if self.is_reached else None,
                self.asked,
                client_id="test",
                rng=random.Random(1),
                attempt_timeout_ms=30_000,
            )
            broker: Any = self.broker
            lifecycle = BrokerLifecycle(broker, channel)
            await scenario(lifecycle)
            await lifecycle.close()

        with self.loop.stopped_stopwatches():
            self.loop.run_until_complete(told())

    async def asked(self, request: Message) -> Message:
        self.requests.append((round(self.loop.time(), 2), request))
        if isinstance(request, BrokerRegistrationRequest):
            code = self.registrations.pop(0) if self.registrations else ErrorCode.NONE
            return BrokerRegistrationResponse(error_code=code, broker_epoch=-1 if code else 5)
        assert isinstance(request, Heartbeat)
        answer = self.answer(request)
        if answer is None:
            await self.loop.create_future()  # never
        assert answer is not None
        return answer

    def good_answer(self, request: Heartbeat) -> Answer:
        self.unfenced = not request.want_fence
        return Answer(
            is_caught_up=request.current_metadata_offset >= 5,
            is_fenced=request.want_fence,
            should_shut_down=request.want_shut_down,
        )

    def heartbeats(self) -> list[Heartbeat]:
        return [request for _, request in self.requests if isinstance(request, Heartbeat)]


def registration(broker_id: int, incarnation_id: bytes, epoch: int = 5) -> BrokerRegistration:
    """The registration of an unfenced broker, from before log directories had ids."""
    return BrokerRegistration.from_record(
        RegisterBrokerRecord(
            broker_id=broker_id, broker_epoch=epoch, incarnation_id=incarnation_id, fenced=False
        )
    )


async def running(lifecycle: BrokerLifecycle) -> None:
    lifecycle.start()
    await lifecycle.caught_up()
    await lifecycle.unfence()


def test_a_broker_registers_catches_up_and_is_unfenced() -> None:
    world = World()
    world.image.offset = 4

    async def scenario(lifecycle: BrokerLifecycle) -> None:
        lifecycle.start()
        world.loop.call_later(1, setattr, world.image, "offset", 5)
        await lifecycle.caught_up()
        assert world.loop.time() == pytest.approx(1, abs=0.05), "asked often as long as it is behind"
        assert (lifecycle.epoch, lifecycle.state) == (5, BrokerState.RECOVERY)
        assert not world.unfenced
        await lifecycle.unfence()
        assert world.unfenced
        assert lifecycle.state is BrokerState.RUNNING
        began = len(world.requests)
        await sleep(world, 21)
        assert len(world.requests) - began == 10, "one every broker.heartbeat.interval.ms"

    world.run(scenario)
    (request,) = (r for _, r in world.requests if isinstance(r, BrokerRegistrationRequest))
    assert request.log_dirs == [uuid_from_text(DIRECTORY)]
    assert request.previous_broker_epoch == -1, "it is the first"
    assert (request.cluster_id, request.rack) == ("c", "r")
    assert {feature.name for feature in request.features} >= {"metadata.version", "kraft.version"}
    assert {heartbeat.broker_epoch for heartbeat in world.heartbeats()} == {5}


@pytest.mark.parametrize(("before", "told"), [(WHOLE, 3), (b"l" * 16, -1)])
def test_it_tells_of_the_epoch_before_if_nothing_of_it_is_lost(before: bytes, told: int) -> None:
    world = World()
    world.image.brokers[1] = registration(1, before, epoch=3)

    async def scenario(lifecycle: BrokerLifecycle) -> None:
        assert lifecycle.last_epoch == told, "as long as it has no epoch of its own"
        await running(lifecycle)
        assert lifecycle.last_epoch == 5

    world.run(scenario)
    (request,) = (r for _, r in world.requests if isinstance(r, BrokerRegistrationRequest))
    assert request.previous_broker_epoch == told


def test_it_waits_for_what_is_committed_before_it_looks_into_the_image() -> None:
    world = World(initial_broker_registration_timeout_ms="3000")
    world.image.offset = 4
    world.broker.quorum.leader_high_watermark = None
    world.loop.call_later(1, setattr, world.broker.quorum, "leader_high_watermark", 6)
    world.loop.call_later(2, setattr, world.broker.quorum, "leader_high_watermark", 60)
    world.loop.call_later(2.5, setattr, world.image, "offset", 5)

    async def scenario(lifecycle: BrokerLifecycle) -> None:
        await lifecycle.informed()
        assert world.loop.time() == pytest.approx(2.5, abs=0.05), "not for what is committed later"
        assert lifecycle.state is BrokerState.STARTING
        world.image.offset = 4
        with pytest.raises(RegistrationFailed, match="within 3000 ms: no controller has answered"):
            await lifecycle.informed()

    world.run(scenario)
    assert world.requests == []


async def sleep(world: World, duration_s: float) -> None:
    passed = world.loop.create_future()
    world.loop.call_later(duration_s, passed.set_result, None)
    await passed


def test_registration_is_tried_again_until_the_controller_agrees() -> None:
    """After a kill, the session of the former incarnation must expire first."""
    world = World()
    world.registrations = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 4

    async def scenario(lifecycle: BrokerLifecycle) -> None:
        await running(lifecycle)
        assert 8 <= world.loop.time() < 8.5, "four pauses of broker.heartbeat.interval.ms"

    world.run(scenario)


def test_who_is_not_registered_in_time_does_not_start() -> None:
    refused = World(initial_broker_registration_timeout_ms="5000")
    refused.registrations = [ErrorCode.INCONSISTENT_CLUSTER_ID] * 9
    lonely = World(initial_broker_registration_timeout_ms="5000")
    lonely.is_reached = False
    for world, why in ((refused, "INCONSISTENT_CLUSTER_ID"), (lonely, "no active controller is known")):

        async def scenario(lifecycle: BrokerLifecycle, world: World = world, why: str = why) -> None:
            lifecycle.start()
            with pytest.raises(RegistrationFailed, match=why):
                await lifecycle.caught_up()
            assert world.loop.time() == pytest.approx(5)

        world.run(scenario)


def test_a_new_controller_is_asked_as_soon_as_there_is_one() -> None:
    world = World()
    world.is_reached = False

    async def scenario(lifecycle: BrokerLifecycle) -> None:
        world.loop.call_later(7.9, setattr, world, "is_reached", True)
        await running(lifecycle)
        assert world.loop.time() < 8.2

    world.run(scenario)


def test_a_fenced_broker_goes_on_asking() -> None:
    world = World()

    async def scenario(lifecycle: BrokerLifecycle) -> None:
        await running(lifecycle)
        world.answer = lambda request: Answer(error_code=ErrorCode.STALE_BROKER_EPOCH)
        await sleep(world, 10)
        world.answer = world.good_answer
        await sleep(world, 3)
        assert lifecycle.state is BrokerState.RUNNING
        assert not world.heartbeats()[-1].want_fence

    world.run(scenario)


def test_a_registration_of_its_last_life_that_came_late_is_replaced() -> None:
    world = World()

    async def scenario(lifecycle: BrokerLifecycle) -> None:
        await running(lifecycle)
        world.image.brokers[1] = registration(1, b"o" * 16, epoch=9)
        world.answer = lambda request: Answer(error_code=ErrorCode.STALE_BROKER_EPOCH)
        await sleep(world, 3)
        world.answer = world.good_answer
        await sleep(world, 3)
        asked = [at_s for at_s, request in world.requests if isinstance(request, BrokerRegistrationRequest)]
        assert len(asked) > 1
        assert lifecycle.state is BrokerState.RUNNING

    world.run(scenario)


def test_controlled_shutdown_waits_for_the_controller() -> None:
    world = World()
    asked: list[float] = []

    def later(request: Heartbeat) -> Answer:
        if request.want_shut_down:
            asked.append(world.loop.time())
        return Answer(is_fenced=False, should_shut_down=request.want_shut_down and len(asked) > 5)

    async def scenario(lifecycle: BrokerLifecycle) -> None:
        await running(lifecycle)
        await sleep(world, 1)
        world.answer = later
        began_s = world.loop.time()
        await lifecycle.shut_down()
        assert asked[0] - began_s < 0.01, "it is said at once"
        assert len(asked) == 6
        assert world.loop.time() - began_s < 0.5, "and asked again soon, if less and less"

    world.run(scenario)


@pytest.mark.parametrize(("others", "patience_s"), [([2], 5), ([], 1)])
def test_controlled_shutdown_gives_up_on_a_silent_controller(others: list[int], patience_s: float) -> None:
    world = World()
    for broker_id in others:
        world.image.cluster.brokers[broker_id] = registration(broker_id, b"o" * 16)

    async def scenario(lifecycle: BrokerLifecycle) -> None:
        await running(lifecycle)
        world.answer = lambda request: None
        began_s = world.loop.time()
        await lifecycle.shut_down()
        assert world.loop.time() - began_s == pytest.approx(patience_s, abs=0.1)

    world.run(scenario)


def test_a_failed_directory_is_told_of_or_the_node_ends() -> None:
    told, untold = World(), World()

    async def scenario(lifecycle: BrokerLifecycle) -> None:
        await running(lifecycle)
        lifecycle.directory_failed(DIRECTORY)
        await sleep(told, 40)
        assert told.heartbeats()[-1].offline_log_dirs == [uuid_from_text(DIRECTORY)]
        assert not told.broker.died.done()

    told.run(scenario)

    async def silent(lifecycle: BrokerLifecycle) -> None:
        await running(lifecycle)
        untold.answer = lambda request: None
        lifecycle.directory_failed(DIRECTORY)
        await sleep(untold, 29)
        assert not untold.broker.died.done()
        await sleep(untold, 2)
        assert DIRECTORY in untold.broker.died.result()

    untold.run(silent)


def test_a_registration_of_before_an_upgrade_is_made_again() -> None:
    """Since 3.7-IV2 a registration contains the log directories."""
    world = World()

    async def scenario(lifecycle: BrokerLifecycle) -> None:
        await running(lifecycle)
        world.image.cluster.brokers[1] = registration(1, b"i" * 16)
        world.image.features["metadata.version"] = 16
        lifecycle.image_changed()
        await sleep(world, 3)
        world.image.features["metadata.version"] = 17
        lifecycle.image_changed()
        await sleep(world, 1)
        registrations = [at for at, r in world.requests if isinstance(r, BrokerRegistrationRequest)]
        assert len(registrations) == 2
        assert registrations[1] >= 3

    world.run(scenario)
