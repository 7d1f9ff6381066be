"""Random requests to the controller and to Apache Kafka's own classes get the same answers and records.

Brokers start, stop, die and fall behind; topics are created, moved and deleted; leaders shrink and expand
their ISRs with right and wrong epochs; controllers take over. The invariants must hold after every step.
"""

import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from controller_bench import SESSION_MS, ControllerBench, replayed
from controller_requests import RequestMaker
from invariants import check_image
from kafka_controller import Decided, JavaRandom, KafkaController, kafka_controller

from long_run import repetitions
from penstock.metadata.controller.configs import incremental_alter_configs
from penstock.metadata.controller.elections import balance_leaders, elect_unclean_leaders
from penstock.metadata.controller.features import record_version
from penstock.metadata.controller.heartbeats import BrokerHeartbeats
from penstock.metadata.controller.registration import fence_one_stale_broker
from penstock.metadata.controller.state import ControllerState, Decision, Refusal
from penstock.metadata.image import ResourceType
from penstock.protocol import messages as m
from penstock.protocol.codec import Message
from penstock.protocol.record_serde import decode_metadata_record, encode_metadata_record

pytestmark = [pytest.mark.kafka, pytest.mark.longer, pytest.mark.timeout(600)]

STEPS = repetitions("PENSTOCK_CONTROLLER_STEPS", gate=1_000, long=10_000)
UNKNOWN = -1


class KafkaIsStuck(Exception):
    """A partition without a leader was moved away from its last leader, so Kafka's controller fails."""


class KafkaForgets(Exception):
    """A lost directory completes a reassignment.

    Kafka removes the broker from the former state of the partition, so that a broker leads that is no longer
    a replica.
    """


class Pair:
    """Both controllers, with a comparison of their decisions."""

    def __init__(self, kafka: KafkaController, seed: int, elr: bool, metadata_version: int) -> None:
        self.kafka = kafka
        self.rng = random.Random(seed)
        self.placing = JavaRandom(seed)
        self.bench = ControllerBench(
            {"node.id": "1"}, brokers=(), elr=elr, metadata_version=metadata_version, rng=self.placing
        )
        self.maker = RequestMaker(self.bench, self.rng, as_kafka=True)
        kafka.tell("feature", "metadata.version", metadata_version)
        if elr:
            kafka.tell("feature", "eligible.leader.replicas.version", 1)
        kafka.tell("at", self.bench.now_ms)
        self.topic_ids: list[bytes] = []
        self.bench.state.new_uuid = lambda: self.topic_ids.pop(0)
        self.counts: Counter[str] = Counter()

    def step(self) -> str:
        """Run one random step and return its description."""
        self.bench.now_ms += 1
        self.kafka.tell("at", self.bench.now_ms)
        action = self.rng.choices(
            (self.request, self.wait, self.balance, self.unclean, self.config, self.take_over),
            (60, 3, 2, 1, 2, 0.3),
        )[0]
        said = action()
        check_image(self.bench.image, elr=self.bench.state.elr_enabled)
        return said

    def request(self) -> str:
        request, version, decide = self.maker.make()
        seed = self.rng.getrandbits(30)
        self.placing.scramble(seed)
        self.kafka.tell("seed", seed)
        theirs = self.kafka.ask(request, version)
        if theirs.error is not None and theirs.error[0] == UNKNOWN and self._last_leader_is_gone():
            raise KafkaIsStuck
        if isinstance(request, m.AssignReplicasToDirsRequest) and _forgets_replicas(theirs.records):
            raise KafkaForgets
        self.topic_ids = [r.topic_id for r in theirs.records if isinstance(r, m.TopicRecord)]
        try:
            decision = decide(self.bench.state)
        except Refusal as refusal:
            ours = Decided(None, (refusal.code, str(refusal)), [])
        else:
            answer = type(decision.response).decode(version, decision.response.encode(version))[0]
            ours = Decided(answer, None, list(decision.records))
        self.compare(f"{request}", ours, theirs)
        self.bench.write(*ours.records)
        name = type(request).__name__ + (" refused" if ours.error else "")
        self.counts[name] += 1
        return repr(request)

    def normal(self, records: Sequence[Message]) -> list[str]:
        return normal(list(records), self.bench.image.metadata_version)

    def compare(self, what: str, ours: Decided, theirs: Decided) -> None:
        assert normal_error(ours.error) == normal_error(theirs.error), what
        if theirs.response is not None:
            assert normal_response(ours.response) == normal_response(theirs.response), what
        assert self.normal(ours.records) == self.normal(theirs.records), what

    def periodic(self, command: str, decision: Decision[bool]) -> str:
        theirs = self.kafka.tell(command)
        assert theirs.error is None, theirs
        assert self.normal(decision.records) == self.normal(theirs.records), command
        self.bench.commit(decision)
        self.counts[command] += bool(decision.records)
        return command

    def balance(self) -> str:
        return self.periodic("balance", balance_leaders(self.bench.state))

    def unclean(self) -> str:
        return self.periodic("unclean", elect_unclean_leaders(self.bench.state))

    def wait(self) -> str:
        """Advance the time and fence brokers without heartbeats, each when its session expires."""
        until_ms = self.bench.now_ms + self.rng.choice((10, SESSION_MS // 2, SESSION_MS + 10))
        heartbeats = self.bench.state.heartbeats
        fenced = []
        while True:
            silent = [heartbeats.since_last_contact_ms(broker, self.bench.now_ms) for broker in range(1, 20)]
            oldest_ms = max((ms for ms in silent if ms is not None), default=None)
            if oldest_ms is None or self.bench.now_ms - oldest_ms + SESSION_MS + 1 > until_ms:
                break
            self.bench.now_ms = max(self.bench.now_ms, self.bench.now_ms - oldest_ms + SESSION_MS + 1)
            self.kafka.tell("at", self.bench.now_ms)
            decision = fence_one_stale_broker(self.bench.state, self.bench.now_ms)
            theirs = []
            while (decided := self.kafka.tell("fence")).response == "true":
                theirs += decided.records
            assert self.normal(decision.records) == self.normal(theirs), "fence"
            self.bench.commit(decision)
            fenced.append(decision)
        self.bench.now_ms = until_ms
        self.kafka.tell("at", until_ms)
        while (decided := self.kafka.tell("fence")).response == "true":
            assert not decided.records
        self.counts["fenced"] += len(fenced)
        return f"wait, {len(fenced)} fenced"

    def config(self) -> str:
        topics = [*self.bench.image.topics.by_name]
        topic = self.rng.choice(["-", *topics])
        name, values = self.rng.choice(
            (
                ("min.insync.replicas", ("1", "2", "3")),
                ("unclean.leader.election.enable", ("true", "false", "false")),
            )
        )
        value = self.rng.choice((*values, "-"))
        if topic == "-" and value == "-":
            value = values[0]
        if name == "min.insync.replicas" and self._has_eligible_leaders():
            return "no change"  # Kafka still lists the cleared partitions by broker and changes them twice
        theirs = self.kafka.tell("config", topic, name, value)
        change = m.IncrementalAlterConfigsRequest
        request = change(
            resources=[
                change.AlterConfigsResource(
                    resource_type=ResourceType.BROKER if topic == "-" else ResourceType.TOPIC,
                    resource_name="" if topic == "-" else topic,
                    configs=[
                        change.AlterableConfig(
                            name=name,
                            config_operation=int(value == "-"),
                            value=None if value == "-" else value,
                        )
                    ],
                )
            ]
        )
        decision = incremental_alter_configs(self.bench.state, request)
        if decision.records or topic != "-":  # Kafka writes a broker's config even if it does not change
            assert self.normal(decision.records) == self.normal(theirs.records), request
            self.bench.commit(decision)
        else:
            self.bench.write(*theirs.records)
        return repr(request)

    def _last_leader_is_gone(self) -> bool:
        partitions = [p for t in self.bench.image.topics for p in t.partitions.values()]
        return any(set(p.last_known_elr) - set(p.replicas) for p in partitions)

    def _has_eligible_leaders(self) -> bool:
        return any(p.elr for t in self.bench.image.topics for p in t.partitions.values())

    def take_over(self) -> str:
        self.kafka.tell("takeover")
        state: ControllerState = self.bench.state
        state.heartbeats = BrokerHeartbeats(SESSION_MS)
        state.heartbeats.take_over(state.image.brokers.values(), state.image.offset, self.bench.now_ms)
        # All brokers sent heartbeats at one time. Send them in sequence, so that both fence in one order:
        for _, broker in sorted(state.image.brokers.items()):
            if not broker.fenced:
                self.bench.now_ms += 1
                self.kafka.tell("at", self.bench.now_ms)
                heartbeat = m.BrokerHeartbeatRequest(
                    broker_id=broker.broker_id,
                    broker_epoch=broker.epoch,
                    current_metadata_offset=self.bench.image.offset,
                )
                self.bench.heartbeat(broker.broker_id, current_metadata_offset=self.bench.image.offset)
                self.kafka.ask(heartbeat, 2)
        return "take over"


def normal_error(error: tuple[int, str] | None) -> object:
    return error if error is None or error[0] != UNKNOWN else (UNKNOWN, "")


def normal_response(response: object) -> object:
    """A response with unordered parts sorted, and our own messages replaced by Kafka's."""
    if isinstance(response, m.ElectLeadersResponse):
        return sorted(
            (result.topic, sorted(map(repr, result.partition_result)))
            for result in response.replica_election_results
        )
    if isinstance(response, m.ListPartitionReassignmentsResponse):
        return sorted((topic.name, sorted(map(repr, topic.partitions))) for topic in response.topics)
    if isinstance(response, m.CreateTopicsResponse):
        return [(t.name, t.topic_id, t.error_code, t.error_message) for t in response.topics]
    if isinstance(response, m.CreatePartitionsResponse):
        return [(r.name, r.error_code) for r in response.results]
    if isinstance(response, m.DeleteTopicsResponse | m.UnregisterBrokerResponse):
        return None
    if isinstance(response, m.AlterPartitionReassignmentsResponse):
        return [
            (p.partition_index, p.error_code, p.error_message)
            for t in response.responses
            for p in t.partitions
        ]
    return response


def normal(records: list[Message], metadata_version: int) -> list[str]:
    """Records as text; runs of one kind are sorted where Kafka uses the order of a hash table."""
    made: list[str] = []
    run: list[tuple[object, str]] = []
    kind: type | None = None
    for record in records:
        if type(record) is not kind:
            made += [text for _, text in sorted(run, key=lambda item: repr(item[0]))]
            run, kind = [], type(record)
        run.append((_order(record), _text(record, metadata_version)))
    return made + [text for _, text in sorted(run, key=lambda item: repr(item[0]))]


def _order(record: Message) -> object:
    if isinstance(record, m.PartitionChangeRecord | m.PartitionRecord):
        return record.topic_id, record.partition_id
    if isinstance(record, m.ConfigRecord):
        return record.resource_name, record.name
    return 0


def _text(record: Message, metadata_version: int) -> str:
    record, _ = decode_metadata_record(
        encode_metadata_record(record, record_version(record, metadata_version))
    )
    if isinstance(record, m.BrokerRegistrationChangeRecord):
        record = m.BrokerRegistrationChangeRecord(
            broker_id=record.broker_id,
            broker_epoch=record.broker_epoch,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=sorted(record.log_dirs),
            cordoned_log_dirs=record.cordoned_log_dirs,
        )
    return repr(record)


def _forgets_replicas(records: Sequence[Message]) -> bool:
    """Whether a partition gets other replicas and is then changed again."""
    moved: set[tuple[bytes, int]] = set()
    for record in records:
        if isinstance(record, m.PartitionChangeRecord):
            place = (record.topic_id, record.partition_id)
            if place in moved:
                return True
            if record.replicas is not None:
                moved.add(place)
    return False


@pytest.mark.parametrize(("elr", "metadata_version"), [(True, 30), (False, 30), (False, 11)])
def test_random_requests(
    elr: bool, metadata_version: int, kafka_libs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", str(random.getrandbits(30))))
    counts: Counter[str] = Counter()
    steps = 0
    while steps < STEPS:
        with kafka_controller(kafka_libs) as kafka:
            pair = Pair(kafka, seed, elr, metadata_version)
            history: list[str] = []
            try:
                while steps < STEPS:
                    steps += 1
                    history.append(pair.step())
            except (KafkaIsStuck, KafkaForgets):
                pass
            except AssertionError:
                print(f"seed {seed}, step {len(history)}, after:", *history[-12:], sep="\n  ")
                raise
            assert replayed(pair.bench.records).brokers == pair.bench.image.brokers
            counts += pair.counts
        seed += 1
    print(seed, counts)
    often = ("CreateTopicsRequest", "AlterPartitionRequest", "AlterPartitionReassignmentsRequest", "fenced")
    assert all(counts[name] >= STEPS / 500 for name in often), counts
