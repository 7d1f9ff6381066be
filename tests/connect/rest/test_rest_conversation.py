"""Penstock answers Connect's REST API as Apache Kafka Connect's distributed worker does."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from rest_conversation import converse
from rest_serving import serving

from apache_connect_worker import ApacheWorker, connect_libs
from penstock.testing import Cluster
from recorded_answers import compare

BESIDE = Path(__file__).parent
API = BESIDE / "rest_conversation.txt"
"""The API of an idle worker, and the life of one connector."""
WORK = BESIDE / "worker_conversation.txt"
"""A worker whose connectors move records. It needs a cluster."""

HEADERS = BESIDE / "headers_conversation.txt"
"""A worker with the properties below."""
PROPERTIES = {
    "access.control.allow.origin": r"https://console\.example\.com(:\d+)?, https://x.*",
    "access.control.allow.methods": "GET,PUT, DELETE",
    "response.http.headers.config": 'add Cache-Control: no-cache, "set X-Frame-Options:DENY", '
    '"add Vary: Accept, Cookie", setDate Expires: 1000, add X-Twice: one, add X-Twice: two, '
    "set X-Once: one, set X-Once: two, add Location: nowhere, set Allow: none",
    "topic.tracking.enable": "false",
    "admin.listeners": "http://127.0.0.1:0",
}
FORWARDING = BESIDE / "forwarding_conversation.txt"
"""A worker that another one leads."""


@pytest.mark.parametrize(
    ("recorded", "properties"), [(API, {}), (HEADERS, PROPERTIES)], ids=["api", "headers"]
)
def test_penstock_says_what_kafka_says(recorded: Path, properties: Mapping[str, str], tmp_path: Path) -> None:
    script = recorded.read_text()
    with serving(properties) as served:
        answers = converse(script, served.url, tmp_path)
    assert answers.splitlines() == script.splitlines()


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("recorded", "properties"), [(API, {}), (WORK, {}), (HEADERS, PROPERTIES)], ids=["api", "work", "headers"]
)
def test_kafka_says_so(recorded: Path, properties: Mapping[str, str], tmp_path: Path) -> None:
    """Apache's worker runs on a node of Penstock.

    With PENSTOCK_REWRITE=1 the test stores the answers, for review before a commit.
    """
    libs = connect_libs()
    with Cluster() as cluster, ApacheWorker(libs, cluster.bootstrap_servers, tmp_path, properties) as worker:
        answers = converse(recorded.read_text(), worker.url, tmp_path)
    compare(recorded, answers)


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_kafka_forwards_so(tmp_path: Path) -> None:
    libs = connect_libs()
    leading, following = tmp_path / "leading", tmp_path / "following"
    leading.mkdir()
    following.mkdir()
    with (
        Cluster() as cluster,
        ApacheWorker(libs, cluster.bootstrap_servers, leading),
        ApacheWorker(libs, cluster.bootstrap_servers, following) as follower,
    ):
        answers = converse(FORWARDING.read_text(), follower.url, tmp_path)
    compare(FORWARDING, answers)
