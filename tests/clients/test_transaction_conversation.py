"""Penstock answers transaction requests as Apache Kafka does; each continues the other's transactions."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from transaction_conversation import Player, converse

from broker_wire import Wire
from kafka_node import KafkaNode
from penstock.testing import Cluster
from recorded_answers import compare
from transaction_wire import TWO_PHASE_COMMIT

WHAT_KAFKA_SAYS = Path(__file__).with_name("transaction_conversation.txt")

LEFT_OPEN = """
topic t
coordinator a b g
init p a
write p t:0 one
end p commit
settle a
write p t:0 two
commit p g t:0=5
init q b
add q t:0
write q t:0 three v=11
"""
TAKEN_UP = """
coordinator a b g
describe a b
committed g t:0 stable
write q t:0 four v=11
end p commit
settle a
end q abort v=4
settle b
committed g t:0 stable
write p t:0 five
end p commit
settle a
read t:0
describe a b
"""


def test_penstock_says_what_kafka_says() -> None:
    script = WHAT_KAFKA_SAYS.read_text()
    with Cluster(TWO_PHASE_COMMIT) as cluster:
        assert converse(cluster.bootstrap_servers, script) == script


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(180)
def test_kafka_says_so(kafka_libs: Path, tmp_path: Path) -> None:
    """With PENSTOCK_REWRITE=1 the test stores the answers, for review before a commit."""
    script = WHAT_KAFKA_SAYS.read_text()
    with KafkaNode(kafka_libs, tmp_path, config=TWO_PHASE_COMMIT) as kafka:
        answers = converse(kafka.bootstrap_servers, script)
    compare(WHAT_KAFKA_SAYS, answers)


def taken_up(
    first: AbstractContextManager[KafkaNode | Cluster], second: AbstractContextManager[KafkaNode | Cluster]
) -> str:
    """The answers of the second node about transactions that the first one began on the same data."""
    with first as node, Wire(node.bootstrap_servers) as wire:
        player = Player(wire)
        list(player.play(LEFT_OPEN))
    with second as node, Wire(node.bootstrap_servers) as wire:
        player.move_to(wire)
        return "\n".join(player.play(TAKEN_UP))


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(240)
def test_transactions_go_on_at_another_node(kafka_libs: Path, tmp_path: Path) -> None:
    directories = [tmp_path / name for name in ("a", "b", "c")]
    for directory in directories[:2]:
        directory.mkdir()
    from_kafka, to_kafka = (KafkaNode(kafka_libs, directory) for directory in directories[:2])
    own = taken_up(Cluster(data_dir=directories[2]), Cluster(data_dir=directories[2]))
    assert "t:0=-1 UNSTABLE_OFFSET_COMMIT" in own
    assert own.count("COMMIT id1/") == 3
    assert taken_up(from_kafka, Cluster(data_dir=from_kafka.data_dir)) == own
    assert taken_up(Cluster(data_dir=to_kafka.data_dir), to_kafka) == own
