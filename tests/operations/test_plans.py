"""Plans as files, their throttles, and the load of brokers."""

import json

import pytest

from penstock.client.admin.configs import ConfigResource, ResourceType
from penstock.client.admin.replicas import PartitionReplicas
from penstock.client.connections.metadata import TopicPartition
from penstock.operations.health import BrokerLoad, broker_loads
from penstock.operations.plan_file import BadPlan, read_plan, write_plan
from penstock.operations.throttle import throttle_changes

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
PLAN = {T0: (1, 2, 3), T1: (3, 1), U0: (2,)}


def test_a_plan_survives_its_file() -> None:
    text = write_plan(PLAN)
    assert read_plan(text) == PLAN
    assert json.loads(text)["version"] == 1


def test_a_plan_of_kafkas_tool_is_read() -> None:
    text = (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
    )
    assert read_plan(text) == {T0: (1, 2)}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "line 1: .*expected JSON"),
        ("[]", r'expected \{"version": 1'),
        ('{"version": 2, "partitions": []}', r'expected \{"version": 1'),
        ('{"version": 1, "partitions": []}', "expected a list of partitions, found"),
        ('{"version": 1, "partitions": [3]}', r"partitions\[0\]: expected"),
        ('{"version": 1, "partitions": [{"partition": 0, "replicas": [1]}]}', '"topic": expected a name'),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": true, "replicas": [1]}]}',
            '"partition": expected a number, found True',
        ),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": []}]}',
            '"replicas": expected a list of broker ids',
        ),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}',
            "a broker appears twice",
        ),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]},'
            '{"topic": "t", "partition": 0, "replicas": [2]}]}',
            r"partitions\[1\]: t-0 appears twice",
        ),
    ],
)
def test_what_is_no_plan_is_named(text: str, complaint: str) -> None:
    with pytest.raises(BadPlan, match=complaint):
        read_plan(text)


def test_throttles_hold_for_what_moves_only() -> None:
    current = {T0: (1, 2), T1: (1, 2), U0: (1, 2)}
    planned = {T0: (3, 2), T1: (2, 1), U0: (1, 2, 4)}  # T1 only changes its leader
    changes = throttle_changes(current, planned, 5000)
    rates = {"leader.replication.throttled.rate": "5000", "follower.replication.throttled.rate": "5000"}
    assert changes == {
        ConfigResource(ResourceType.TOPIC, "t"): {
            "leader.replication.throttled.replicas": "0:1,0:2",
            "follower.replication.throttled.replicas": "0:3",
        },
        ConfigResource(ResourceType.TOPIC, "u"): {
            "leader.replication.throttled.replicas": "0:1,0:2",
            "follower.replication.throttled.replicas": "0:4",
        },
        **{ConfigResource(ResourceType.BROKER, str(broker)): rates for broker in (1, 2, 3, 4)},
    }


def test_what_brokers_carry() -> None:
    def partition(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionReplicas:
        return PartitionReplicas(leader, 1, replicas, isr, None, ())

    partitions = {
        T0: partition(1, (1, 2), (1,)),
        T1: partition(1, (2, 1), (1, 2)),
        U0: partition(-1, (9,), ()),
    }
    assert broker_loads([1, 2, 3], partitions) == {
        1: BrokerLoad(leaders=2, preferred_leaders=1, replicas=2, out_of_sync=0),
        2: BrokerLoad(leaders=0, preferred_leaders=1, replicas=2, out_of_sync=1),
        3: BrokerLoad(),
        9: BrokerLoad(leaders=0, preferred_leaders=1, replicas=1, out_of_sync=1),
    }
