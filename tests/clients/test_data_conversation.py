"""Penstock answers data requests as Apache Kafka does, field by field."""

from pathlib import Path

import pytest
from data_conversation import converse

from kafka_node import KafkaNode
from penstock.testing import Cluster
from recorded_answers import compare

WHAT_KAFKA_SAYS = Path(__file__).with_name("data_conversation.txt")


def test_penstock_says_what_kafka_says() -> None:
    script = WHAT_KAFKA_SAYS.read_text()
    with Cluster() as cluster:
        assert converse(cluster.bootstrap_servers, script) == script


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(180)
def test_kafka_says_so(kafka_libs: Path, tmp_path: Path) -> None:
    """With PENSTOCK_REWRITE=1 the test stores the answers, for review before a commit."""
    script = WHAT_KAFKA_SAYS.read_text()
    with KafkaNode(kafka_libs, tmp_path) as kafka:
        answers = converse(kafka.bootstrap_servers, script, settle_s=0.25)
    compare(WHAT_KAFKA_SAYS, answers)
