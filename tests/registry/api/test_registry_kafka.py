"""Two registries on Apache Kafka: its groups, its compacted topic, and its fencing of a former leader.

The test runs with PENSTOCK_KAFKA_CLUSTERS only.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafka_node import KafkaNode
from penstock.client.admin.configs import ConfigResource, ResourceType, describe_configs
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.registry.store.writer import Fenced, Writer
from penstock.registry.subjects import Record
from registry_node import ask, avro, started


@pytest.mark.kafka
@pytest.mark.timeout(180)
@pytest.mark.skipif(
    not os.environ.get("PENSTOCK_KAFKA_CLUSTERS"),
    reason="a node of Apache Kafka: PENSTOCK_KAFKA_CLUSTERS=1, or make test-cluster",
)
def test_two_instances_on_apache_kafka(kafka_libs: Path, tmp_path: Path) -> None:
    with KafkaNode(kafka_libs, tmp_path) as kafka:
        instances = [started(kafka.bootstrap_servers, "kafka") for _ in range(2)]
        try:
            urls = [each.url for each in instances]

            def register(number: int) -> int:
                subject = f"/subjects/s{number % 5}/versions"
                answer = ask(urls[number % 2], "POST", subject, avro(f"R{number % 5}", "a"))
                assert answer.status == 200, answer
                return answer.body["id"]

            with ThreadPoolExecutor(10) as threads:
                ids = list(threads.map(register, range(40)))
            assert sorted(set(ids)) == [1, 2, 3, 4, 5]
            assert all(ids[n] == ids[n % 5] for n in range(40))
            told = [ask(url, "GET", "/schemas").text for url in urls]
            assert told[0] == told[1]
            _check_fencing(kafka.bootstrap_servers)
            # That has fenced the leader, too, which takes over again.
            assert ask(urls[0], "POST", "/subjects/last/versions", avro("Last", "a")).body["id"] == 6
        finally:
            for each in instances:
                each.close()


def _check_fencing(servers: str) -> None:
    config = ClientConfig.from_properties({"bootstrap.servers": servers})
    topic = "_schemas-kafka"
    noop = Record(b'{"keytype":"NOOP","magic":0}', None)
    with Cluster(config) as one, Cluster(config) as two:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        [policy] = describe_configs(one, [resource], ["cleanup.policy"])[resource]
        assert policy.value == "compact"
        former, newer = (Writer(each, topic, f"schema-registry-{topic}") for each in (one, two))
        one.refresh([topic])
        two.refresh([topic])
        former.claim()
        former.append([noop])
        newer.claim()
        newer.append([noop])
        with pytest.raises(Fenced):
            former.append([noop])
