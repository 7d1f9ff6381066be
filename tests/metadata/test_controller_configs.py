"""Changes to configs: resources, operations and errors."""

import re

import pytest
from controller_bench import ControllerBench

from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.configs import (
    AlterOp,
    ConfigChange,
    alter_configs,
    check_own_broker,
    incremental_alter_configs,
)
from penstock.metadata.controller.state import Refusal
from penstock.metadata.image import ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import AlterConfigsRequest, IncrementalAlterConfigsRequest

TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP
CLIENT_METRICS = ResourceType.CLIENT_METRICS

Answer = tuple[int, str | None]
OK: Answer = (0, None)


@pytest.fixture
def bench() -> ControllerBench:
    bench = ControllerBench()
    bench.create("t")
    bench.records.clear()
    return bench


def alter(
    bench: ControllerBench, type_: int, resource: str, name: str, value: str | None, op: int = AlterOp.SET
) -> Answer:
    config = IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=op, value=value)
    return alter_all(bench, type_, resource, [config])


def alter_all(
    bench: ControllerBench,
    type_: int,
    resource: str,
    configs: list[IncrementalAlterConfigsRequest.AlterableConfig],
    validate_only: bool = False,
) -> Answer:
    asked = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=type_, resource_name=resource, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[asked], validate_only=validate_only)
    response = bench.do(incremental_alter_configs, request).responses[0]
    assert (response.resource_type, response.resource_name) == (type_, resource)
    return response.error_code, response.error_message


def test_set_and_delete(bench: ControllerBench) -> None:
    assert alter(bench, TOPIC, "t", "retention.ms", "5") == OK
    assert bench.image.configs.of(TOPIC, "t") == {"retention.ms": "5"}
    assert alter(bench, TOPIC, "t", "retention.ms", None, AlterOp.DELETE) == OK
    assert bench.image.configs.of(TOPIC, "t") == {}
    assert alter(bench, TOPIC, "t", "no.such.config", None, AlterOp.DELETE) == OK


def test_lists_are_appended_to_and_subtracted_from(bench: ControllerBench) -> None:
    assert alter(bench, TOPIC, "t", "cleanup.policy", "compact", AlterOp.APPEND) == OK
    assert bench.image.configs.of(TOPIC, "t") == {"cleanup.policy": "delete,compact"}
    bench.records.clear()
    assert alter(bench, TOPIC, "t", "cleanup.policy", "compact", AlterOp.APPEND) == OK
    assert bench.records == [], "nothing changes, nothing is written"
    assert alter(bench, TOPIC, "t", "cleanup.policy", "delete", AlterOp.SUBTRACT) == OK
    assert bench.image.configs.of(TOPIC, "t") == {"cleanup.policy": "compact"}
    assert alter(bench, TOPIC, "t", "retention.ms", "7", AlterOp.APPEND) == (
        ErrorCode.INVALID_CONFIG,
        "Can't APPEND to key retention.ms because its type is not LIST.",
    )


def test_validation_changes_nothing(bench: ControllerBench) -> None:
    config = IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", value="5")
    assert alter_all(bench, TOPIC, "t", [config], validate_only=True) == OK
    assert bench.records == []


def test_a_change_is_judged_with_what_is_set_already(bench: ControllerBench) -> None:
    assert alter(bench, TOPIC, "t", "max.compaction.lag.ms", "10") == OK
    code, message = alter(bench, TOPIC, "t", "min.compaction.lag.ms", "20")
    assert code == ErrorCode.INVALID_CONFIG
    assert message is not None
    assert "min.compaction.lag.ms (20) > max.compaction.lag.ms (10)" in message


REFUSALS = """
TOPIC "t" foo=5
    INVALID_CONFIG: Unknown topic config name: foo
TOPIC "nope" foo=5
    INVALID_CONFIG: Unknown topic config name: foo
TOPIC "nope" retention.ms=5
    UNKNOWN_TOPIC_OR_PARTITION: The topic 'nope' does not exist.
TOPIC "" foo=5
    INVALID_REQUEST: Default topic resources are not allowed.
TOPIC "a b" foo=5
    INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'a b' contains
TOPIC "t" retention.ms=null
    INVALID_REQUEST: Null value not supported for : retention.ms
3 "t" foo=5
    UNSUPPORTED_VERSION: Unknown resource type 3.
BROKER "2" max.connections=5
    BROKER_ID_NOT_REGISTERED: No node with id 2 found.
BROKER "x" max.connections=5
    INVALID_REQUEST: Node id must be an integer, but it is: x
BROKER "1" node.id=5
    INVALID_REQUEST: Cannot update these configs dynamically: [node.id]
BROKER "1" log.cleaner.threads=-1
    INVALID_REQUEST: Value must be at least 0
BROKER "1" ssl.key.password=s
    INVALID_REQUEST: only per-listener using the listener prefix: [ssl
BROKER "" listener.name.a.ssl.key.password=s
    INVALID_REQUEST: broker id must be specified: [listener
BROKER "1" num.io.threads=100
    INVALID_REQUEST: not be greater than double the current value 8
BROKER "1" num.io.threads=3
    INVALID_REQUEST: should be at least half the current value 8
BROKER "1" log.cleaner.threads=0
    INVALID_REQUEST: Log cleaner threads should be at least 1
BROKER "1" log.cleaner.threads=3
    INVALID_REQUEST: Log cleaner threads cannot be increased to more than double the current value 1
BROKER "" log.cleaner.threads=3
    INVALID_REQUEST: Log cleaner threads cannot be increased to more than double the current value 1
BROKER "1" log.cleaner.dedupe.buffer.size=1048576
    INVALID_REQUEST: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.
GROUP "" foo=5
    INVALID_REQUEST: Default group resources are not allowed.
GROUP "g" foo=5
    INVALID_CONFIG: Unknown group config name: foo
GROUP "g" consumer.session.timeout.ms=5
    INVALID_CONFIG: must be greater than or equal to group.consumer.min
GROUP "g" consumer.heartbeat.interval.ms=16000
    INVALID_CONFIG: must be less than or equal to group.consumer.max
GROUP "g" streams.num.standby.replicas=3
    INVALID_CONFIG: must be less than or equal to group.streams.max.standby
CLIENT_METRICS "" interval.ms=1000
    INVALID_REQUEST: Subscription name can't be empty
CLIENT_METRICS "m" foo=1
    INVALID_REQUEST: Unknown client metrics configuration: foo
CLIENT_METRICS "m" interval.ms=10
    INVALID_REQUEST: interval must be between 100 and 3600000
CLIENT_METRICS "m" match=client_id=(
    INVALID_CONFIG: Illegal client matching pattern: client_id=(
CLIENT_METRICS "m" match=shoe_size=9
    INVALID_CONFIG: Illegal client matching pattern
"""

LINES = REFUSALS.strip().split("\n")
ASKED = re.compile(r'(\w+) "(.*)" ([\w.]+)=(.*)')


@pytest.mark.parametrize(
    ("asked", "answer"),
    list(zip(LINES[::2], LINES[1::2], strict=True)),
    ids=lambda row: row.strip(),
)
def test_refusals_in_kafkas_words(bench: ControllerBench, asked: str, answer: str) -> None:
    match = ASKED.fullmatch(asked)
    assert match is not None
    type_ = ResourceType[match[1]] if match[1] in ResourceType.__members__ else int(match[1])
    found, said = alter(bench, type_, match[2], match[3], None if match[4] == "null" else match[4])
    code, _, message = answer.strip().partition(": ")
    assert found == ErrorCode[code], said
    assert message in (said or "")
    assert bench.records == []


def test_what_may_be_set(bench: ControllerBench) -> None:
    for type_, resource, name, value in (
        (BROKER, "1", "max.connections", "5"),
        (BROKER, "1", "sasl.kerberos.min.time.before.relogin", "58000"),
        (BROKER, "", "log.retention.ms", "5000"),
        (BROKER, "", "num.io.threads", "100"),
        (BROKER, "1", "listener.name.edge.max.connections", "5"),
        (BROKER, "1", "somebody.elses", "5"),
        (GROUP, "g", "consumer.session.timeout.ms", "50000"),
        (CLIENT_METRICS, "m", "match", "client_id=app.*,client_software_name=x"),
    ):
        assert alter(bench, type_, resource, name, value) == OK, name
        assert bench.image.configs.of(type_, resource)[name] == value


def test_a_changed_default_moves_topics_that_follow_it(bench: ControllerBench) -> None:
    assert alter(bench, BROKER, "", "log.cleaner.max.compaction.lag.ms", "10") == OK
    code, _ = alter(bench, TOPIC, "t", "min.compaction.lag.ms", "20")
    assert code == ErrorCode.INVALID_CONFIG


def test_a_resource_or_a_config_twice_is_refused(bench: ControllerBench) -> None:
    config = IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", value="5")
    assert alter_all(bench, TOPIC, "t", [config, config]) == (
        ErrorCode.INVALID_REQUEST,
        "Error due to duplicate config keys",
    )
    asked = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC, resource_name="t", configs=[config]
    )
    response = bench.do(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=[asked, asked]))
    assert [r.error_message for r in response.responses] == ["Each resource must appear at most once."] * 2
    assert alter(bench, TOPIC, "t", "retention.ms", "5", op=7)[0] == ErrorCode.INVALID_REQUEST


def test_alter_configs_replaces_everything(bench: ControllerBench) -> None:
    def replace(*configs: tuple[str, str | None], resource: str = "t") -> Answer:
        asked = AlterConfigsRequest.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=resource,
            configs=[AlterConfigsRequest.AlterableConfig(name=name, value=value) for name, value in configs],
        )
        response = bench.do(alter_configs, AlterConfigsRequest(resources=[asked])).responses[0]
        return response.error_code, response.error_message

    assert replace(("retention.ms", "5"), ("flush.ms", "6")) == OK
    assert replace(("flush.ms", "7")) == OK
    assert bench.image.configs.of(TOPIC, "t") == {"flush.ms": "7"}
    assert replace(("foo", "7")) == (ErrorCode.INVALID_CONFIG, "Unknown topic config name: foo")
    assert replace(("flush.ms", None))[0] == ErrorCode.INVALID_REQUEST
    assert replace(resource="nope")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert replace() == OK
    assert bench.image.configs.of(TOPIC, "t") == {}


def test_a_client_alters_only_what_it_may(bench: ControllerBench) -> None:
    config = IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", value="5")
    asked = [
        IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=TOPIC, resource_name=name, configs=[config]
        )
        for name in ("t", "hidden", "nowhere")
    ]
    bench.create("hidden")
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    request = IncrementalAlterConfigsRequest(resources=asked)
    unauthorized = {(TOPIC, "hidden"): denied, (TOPIC, "nowhere"): denied}
    response = bench.commit(incremental_alter_configs(bench.state, request, unauthorized=unauthorized))
    assert [r.error_code for r in response.responses] == [0, denied, denied]
    assert bench.image.configs.of(TOPIC, "t") == {"retention.ms": "5"}
    assert bench.image.configs.of(TOPIC, "hidden") == {}
    replacing = AlterConfigsRequest(
        resources=[AlterConfigsRequest.AlterConfigsResource(resource_type=TOPIC, resource_name="t")]
    )
    refused = bench.commit(alter_configs(bench.state, replacing, unauthorized={(TOPIC, "t"): denied}))
    assert (refused.responses[0].error_code, refused.responses[0].error_message) == (
        denied,
        denied.default_message,
    )
    assert bench.image.configs.of(TOPIC, "t") == {"retention.ms": "5"}


def test_another_min_isr_ends_eligibility() -> None:
    """KIP-966: a replica that left the ISR under the old value may lack records committed since."""
    bench = ControllerBench(brokers=(1, 2), elr=True)
    bench.place("t", [1, 2], min_insync_replicas="2")
    bench.place("u", [1, 2], min_insync_replicas="2")
    bench.kill(2)
    assert (bench.partition("t").elr, bench.partition("u").elr) == ((2,), (2,))
    epoch = bench.partition("t").partition_epoch
    assert alter(bench, TOPIC, "t", "min.insync.replicas", "1") == OK
    assert (bench.partition("t").elr, bench.partition("u").elr) == ((), (2,))
    assert bench.partition("t").partition_epoch == epoch + 1
    assert alter(bench, BROKER, "", "min.insync.replicas", "1") == OK
    assert bench.partition("u").elr == ()


def test_with_eligible_leader_replicas_the_cluster_has_one_min_isr() -> None:
    bench = ControllerBench(elr=True)
    code, said = alter(bench, BROKER, "1", "min.insync.replicas", "2")
    assert (code, said) == (
        ErrorCode.INVALID_CONFIG,
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    )
    code, said = alter(bench, BROKER, "", "min.insync.replicas", None, AlterOp.DELETE)
    assert (code, said) == (
        ErrorCode.INVALID_CONFIG,
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    )
    assert bench.records == []


def test_the_min_isr_of_the_cluster_stays_when_all_configs_are_replaced() -> None:
    bench = ControllerBench(elr=True)
    assert alter(bench, BROKER, "", "min.insync.replicas", "1") == OK
    nothing = AlterConfigsRequest.AlterConfigsResource(resource_type=BROKER, resource_name="")
    [refused] = bench.do(alter_configs, AlterConfigsRequest(resources=[nothing])).responses
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert bench.image.configs.of(BROKER, "") == {"min.insync.replicas": "1"}


def test_configs_of_another_broker_are_not_judged_by_the_controllers_own() -> None:
    """Broker 1 doesn't know the number of threads of broker 2."""
    bench = ControllerBench(brokers=(1, 2))
    assert alter(bench, BROKER, "1", "num.io.threads", "100")[0] == ErrorCode.INVALID_REQUEST
    assert alter(bench, BROKER, "2", "num.io.threads", "100") == OK
    assert alter(bench, BROKER, "2", "num.io.threads", "many")[0] == ErrorCode.INVALID_REQUEST


def test_a_broker_judges_its_configs_by_what_it_has_itself() -> None:
    """The values of the active controller don't matter, because it is another node."""
    own = BrokerConfig.single_node(
        {"node.id": "2", "log.dirs": "/data/a,/data/b", "num.io.threads": "32"}
    ).with_dynamic({}, {"num.recovery.threads.per.data.dir": "4"})

    def refusal(name: str, *changes: ConfigChange, replaces: bool = False) -> str | None:
        now = own.dynamic_broker if name else {}
        try:
            check_own_broker(own, now, name, list(changes), replaces=replaces)
        except Refusal as refused:
            return f"{refused.code.name}: {refused.message}"
        return None

    def put(name: str, value: str | None) -> ConfigChange:
        return ConfigChange(name, AlterOp.SET, value)

    assert refusal("2", put("num.io.threads", "64")) is None
    assert "double the current value 32" in (refusal("2", put("num.io.threads", "65")) or "")
    assert "half the current value 4" in (refusal("2", put("num.recovery.threads.per.data.dir", "1")) or "")
    assert refusal("2", put("cordoned.log.dirs", "/data/b")) is None
    assert "/data/c" in (refusal("2", put("cordoned.log.dirs", "/data/c")) or "")
    assert refusal("", put("log.cleaner.threads", "2")) is None
    assert refusal("3", put("num.io.threads", "64")) == (
        "INVALID_REQUEST: Unexpected broker id, expected 2, but received 3"
    )
    assert "dynamically: [log.dirs]" in (refusal("2", put("log.dirs", "/data/a")) or "")
    assert "must be at least 1" in (refusal("2", put("num.io.threads", "0")) or "")
    assert "Null value" in (refusal("2", put("num.io.threads", None)) or "")
    again = put("num.io.threads", "33")
    assert refusal("2", again, again) == "INVALID_REQUEST: Error due to duplicate config keys"
    assert refusal("2", again, replaces=True) is None


def test_who_asks_a_controller_itself_may_uncordon_directories_only() -> None:
    """The controller knows no broker's paths; a broker that forwards the request has checked them."""
    bench = ControllerBench(brokers=(1, 2))

    def cordon(paths: str, *, is_forwarded: bool) -> Answer:
        config = IncrementalAlterConfigsRequest.AlterableConfig(name="cordoned.log.dirs", value=paths)
        asked = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=BROKER, resource_name="2", configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[asked])
        decision = incremental_alter_configs(bench.state, request, is_forwarded=is_forwarded)
        (answer,) = bench.commit(decision).responses
        return answer.error_code, answer.error_message

    assert cordon("/data/a", is_forwarded=False)[0] == ErrorCode.INVALID_CONFIG
    assert cordon("/data/a,/data/b", is_forwarded=True) == OK
    assert cordon("/data/b,/data/c", is_forwarded=False)[0] == ErrorCode.INVALID_CONFIG
    assert cordon("/data/b", is_forwarded=False) == OK
    assert cordon("", is_forwarded=False) == OK


def test_a_value_has_a_greatest_size(bench: ControllerBench) -> None:
    longest = ",".join(["1:1"] * 8192)
    assert len(longest) == 32767
    assert alter(bench, TOPIC, "t", "leader.replication.throttled.replicas", longest) == OK
    code, message = alter(bench, TOPIC, "t", "leader.replication.throttled.replicas", "2:2", AlterOp.APPEND)
    assert code == ErrorCode.INVALID_CONFIG
    assert "exceeds the maximum value size of 32767 bytes" in (message or "")


def test_the_size_of_a_value_is_in_bytes() -> None:
    """Kafka cannot write a longer string to the metadata log either."""
    bench = ControllerBench(brokers=(1, 2))
    longest = "/" + "ü" * 16383
    assert alter(bench, BROKER, "2", "cordoned.log.dirs", longest) == OK
    code, message = alter(bench, BROKER, "2", "cordoned.log.dirs", longest + "x")
    assert code == ErrorCode.INVALID_CONFIG
    assert "exceeds the maximum value size of 32767 bytes" in (message or "")
