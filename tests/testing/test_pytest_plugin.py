"""The pytest plugin, in runs of pytest."""

import re
from pathlib import Path

from nested_pytest import run_pytest

PLUGIN = ("-p", "penstock.testing.pytest_plugin")
FAILURES = """
import pytest
from confluent_kafka import Consumer
from penstock.testing import Cluster

@pytest.fixture
def join(penstock_cluster, penstock_topic):
    def join(group):
        consumer = Consumer({"bootstrap.servers": penstock_cluster.bootstrap_servers, "group.id": group})
        assigned = []
        consumer.subscribe([penstock_topic], on_assign=lambda *_: assigned.append(True))
        while not assigned:
            consumer.poll(0.1)
        consumer.close()
    return join

def test_passes():
    with Cluster():
        pass

def test_of_its_own_cluster():
    with Cluster():
        raise ValueError("here")

def test_of_the_shared_cluster_passes(join):
    join("earlier")

def test_without_a_cluster():
    raise ValueError("here")

def test_of_the_shared_cluster(join):
    join("later")
    raise ValueError("here")

def test_in_silence(penstock_cluster):
    raise ValueError("here")
"""
TOPICS = """
import pytest
from confluent_kafka.admin import AdminClient

seen = set()

@pytest.mark.parametrize("word", ["a b", "ü" * 300])
def test_topic(word, penstock_cluster, penstock_topic):
    admin = AdminClient({"bootstrap.servers": penstock_cluster.bootstrap_servers})
    listed = admin.list_topics(penstock_topic)
    assert listed.topics[penstock_topic].error is None
    assert len(listed.topics[penstock_topic].partitions) == 1
    assert penstock_topic.startswith("test_topic-")
    assert penstock_topic not in seen
    seen.add(penstock_topic)
"""
USERS = """
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic
from penstock.testing import Acl

@pytest.mark.parametrize("word", ["a,b", "ü" * 300])
def test_user(word, penstock_secured_cluster, penstock_user):
    cluster, topic = penstock_secured_cluster, f"{penstock_user}-orders"
    admin = cluster.admin_client(penstock_user)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        admin.create_topics([NewTopic(topic)])[topic].result(30)
    cluster.add_acls(Acl(penstock_user, "create", topic=penstock_user, prefixed=True))
    admin.create_topics([NewTopic(topic)])[topic].result(30)
"""


def sections(printed: str) -> dict[str, str]:
    """What was printed for each failed test."""
    parts = re.split(r"^_{3,} (\w+) _{3,}$", printed, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_a_failed_test_shows_and_keeps_what_its_nodes_logged(tmp_path: Path) -> None:
    (tmp_path / "test_failures.py").write_text(FAILURES)
    kept = tmp_path / "kept"
    done = run_pytest(tmp_path, *PLUGIN, "--basetemp", str(kept))
    assert "4 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    failed = sections(done.stdout)
    own, shared = failed["test_of_its_own_cluster"], failed["test_of_the_shared_cluster"]
    assert "penstock node log" in own
    assert " starting node_id=1 " in own
    assert "penstock node log" in shared
    assert "group=later" in shared
    assert "group=earlier" not in shared
    assert "penstock node log" not in failed["test_without_a_cluster"]
    assert "penstock node log" in failed["test_in_silence"]
    assert "the last 0 of 0 lines" in failed["test_in_silence"]
    files = sorted(kept.rglob("*.log"))
    assert len(files) == 2
    assert all(f"in {file}:" in text for file, text in zip(files, (own, shared), strict=True))
    assert "group=earlier" in files[1].read_text()


def test_each_test_has_a_topic_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_topics.py").write_text(TOPICS)
    done = run_pytest(tmp_path, *PLUGIN)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_each_test_has_a_user_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS)
    done = run_pytest(tmp_path, *PLUGIN)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
