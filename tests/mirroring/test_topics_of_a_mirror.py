"""What a mirror learns from its topics before its query starts, on a real node."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.mirroring import Mirror, MirrorError, MirrorSettings
from penstock.mirroring.database import Database
from penstock.mirroring.selection import Selection
from penstock.mirroring.tables import Place
from penstock.testing import Cluster

pytest.importorskip("psycopg")


def test_a_new_query_needs_the_first_records(penstock_cluster: Cluster, tmp_path: Path) -> None:
    """Without a checkpoint, tables of topics whose first records were deleted would lack rows."""
    name = f"m{uuid.uuid4().hex[:8]}"
    servers = penstock_cluster.bootstrap_servers
    topic = f"{name}.inv.orders"
    settings = MirrorSettings(
        Database({"host": "h", "port": "1", "dbname": "d"}),
        Place.of(f"delta:{tmp_path}"),
        Selection.of(["inv.*"]),
        *(name, servers, tmp_path, name, name),
    )
    mirror = Mirror(settings, pytest.fail, print, print)
    mirror._require_whole_topics()
    producer = Producer({"bootstrap.servers": servers})
    for _ in range(3):
        producer.produce(topic, b"x")
    assert producer.flush(30) == 0
    mirror._require_whole_topics()
    admin = AdminClient({"bootstrap.servers": servers})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        deleted.result(30)
    with pytest.raises(MirrorError, match=rf"deleted the first records of {name}\.inv\.orders"):
        mirror._require_whole_topics()
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / "0").touch()
    mirror._require_whole_topics()
