"""Penstock gives, renews and refuses delegation tokens as Apache Kafka does, and lets their users in."""

from pathlib import Path

import pytest
from token_conversation import converse

from kafka_node import KafkaNode
from penstock.testing import Cluster
from recorded_answers import compare
from token_wire import SETTINGS

WHAT_KAFKA_SAYS = Path(__file__).with_name("token_conversation.txt")

pytestmark = pytest.mark.timeout(300)


def test_penstock_says_what_kafka_says() -> None:
    with Cluster(SETTINGS) as cluster:
        assert converse(cluster.bootstrap_servers) == WHAT_KAFKA_SAYS.read_text()


@pytest.mark.long
@pytest.mark.kafka
def test_kafka_says_so(kafka_libs: Path, tmp_path: Path) -> None:
    """With PENSTOCK_REWRITE=1 the test stores the answers, for review before a commit."""
    with KafkaNode(kafka_libs, tmp_path, config=SETTINGS) as kafka:
        answers = converse(kafka.bootstrap_servers)
    compare(WHAT_KAFKA_SAYS, answers)
