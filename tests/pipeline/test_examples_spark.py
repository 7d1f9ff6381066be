"""An example on Spark, from topics to topics, gives the same results as in milliseconds without them."""

from __future__ import annotations

import random
import runpy
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from streams_node import Node

from penstock.streams import App, TopologyTest

pytestmark = [pytest.mark.spark, pytest.mark.long]

EXAMPLE = Path(__file__).parents[2] / "examples" / "fraud_detection.py"
PARTITIONS = 2


def test_fraud_detection_on_spark(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    app: App = runpy.run_path(str(EXAMPLE))["app"]
    test = TopologyTest(app, partitions=PARTITIONS)
    node = Node(servers)
    node.create(PARTITIONS, "payments")
    rng = random.Random(7)
    payments, now_ms = [], 1_772_366_400_000
    for _ in range(400):
        now_ms += rng.choice([5_000, 20_000, 600_000])
        card, amount, country = rng.choice("abcde"), rng.choice([1, 50]), rng.choice(["FR", "FR", "FR", "BR"])
        payments.append((card, {"amount": amount, "country": country}, now_ms))
    for card, payment, time_ms in payments:
        test.input("payments").pipe(card, payment, timestamp=time_ms)
    serialize = test.input("payments")._value.serialize  # type: ignore[union-attr]
    node.write([("payments", card.encode(), serialize(payment), at) for card, payment, at in payments])
    running = app.start(
        bootstrap_servers=servers,
        checkpoint=tmp_path,
        spark=spark,
        until="drained",
        options={"maxOffsetsPerTrigger": "150"},
    )
    assert running.wait(60)
    expected = by_card(
        (r.key.encode(), serialize(r.value), r.timestamp_ms) for r in test.output("alerts").read_all()
    )
    assert {len(alerts) > 3 for alerts in expected.values()} == {True}
    assert by_card(node.read("alerts")) == expected


def by_card(records: Iterable[tuple[Any, Any, int]]) -> dict[bytes, list[tuple[Any, int]]]:
    found = defaultdict(list)
    for card, alert, time_ms in records:
        found[card].append((alert, time_ms))
    return dict(found)
