"""Penstock answers the Admin API as Apache Kafka does, word for word."""

import os
from pathlib import Path

import pytest
from admin_conversation import converse

from kafka_node import KafkaNode
from penstock.testing import Cluster

WHAT_KAFKA_SAYS = Path(__file__).with_name("admin_conversation.txt")
SHIPPED = {"log.retention.hours": "168"}
"""What Kafka's shipped server.properties sets, and a node without a file; tests keep records for ever."""


def test_penstock_says_what_kafka_says() -> None:
    script = WHAT_KAFKA_SAYS.read_text()
    with Cluster(SHIPPED) as cluster:
        assert converse(cluster.bootstrap_servers, script) == script


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(180)
def test_kafka_says_so(kafka_libs: Path, tmp_path: Path) -> None:
    """With PENSTOCK_REWRITE=1 the answers are written down, to be read before they are committed."""
    script = WHAT_KAFKA_SAYS.read_text()
    with KafkaNode(kafka_libs, tmp_path, config=SHIPPED) as kafka:
        answers = converse(kafka.bootstrap_servers, script, settle_s=0.2)
    if os.environ.get("PENSTOCK_REWRITE"):
        WHAT_KAFKA_SAYS.write_text(answers)
    else:
        assert answers == script
