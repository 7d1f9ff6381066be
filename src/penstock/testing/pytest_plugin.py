"""The pytest plugin: fixtures with real nodes, and the logs of nodes in the reports of failed tests.

Topics outlive a test, so give each test its own topic and group names. A test that kills or restarts the node
should create its own `penstock.testing.Cluster`.
"""

import re
import uuid
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import pytest

from penstock.testing import node_logs
from penstock.testing.cluster import Cluster

SECTION: Final = "penstock node log"
TOPIC_NAME_MAX: Final = 249
"""Kafka's limit on the characters of a topic's name."""
USER_NAME_MAX: Final = 64
"""Limit on the characters of a user's name, which may stand in a certificate."""
SHARED: Final = "penstock_node_logs"
"""The key under which pytest-xdist passes the directories of shared nodes' logs to its workers."""


@pytest.fixture(scope="session")
def penstock_cluster() -> Iterator[Cluster]:
    """A running node; `penstock_cluster.bootstrap_servers` is its address."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def penstock_topic(penstock_cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """The name of a new topic on `penstock_cluster`, which no other test has."""
    # Only this fixture needs the client.
    from penstock.client.admin.topics import NewTopic, create_topics
    from penstock.client.config import ClientConfig
    from penstock.client.connections.cluster import Cluster as Connected

    name = _unique(request, TOPIC_NAME_MAX)
    properties = penstock_cluster.client_settings(for_="java")
    with Connected(ClientConfig.from_properties(properties)) as connected:
        create_topics(connected, [NewTopic(name)])
    return name


@pytest.fixture(scope="session")
def penstock_secured_cluster() -> Iterator[Cluster]:
    """A running node where clients log in by SASL_SSL, and may do only what ACLs allow."""
    with Cluster(security=True) as cluster:
        yield cluster


@pytest.fixture
def penstock_user(penstock_secured_cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """The name of a new user of `penstock_secured_cluster`, whom no ACL allows anything yet."""
    name = _unique(request, USER_NAME_MAX)
    penstock_secured_cluster.add_user(name)
    return name


def _unique(request: pytest.FixtureRequest, length_max: int) -> str:
    """A name that no other test has, and that begins with the test's."""
    unique = f"-{uuid.uuid4().hex[:12]}"
    readable = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)
    return readable[: length_max - len(unique)] + unique


@pytest.hookimpl(trylast=True)  # after pytest's own plugin "tmpdir"
def pytest_configure(config: pytest.Config) -> None:
    # pytest has no public access to it from a hook. It is missing if that plugin is turned off.
    temporary: pytest.TempPathFactory | None = getattr(config, "_tmp_path_factory", None)
    if temporary is not None:
        shared = getattr(config, "workerinput", {}).get(SHARED, [])
        config.pluginmanager.register(NodeLogReports(temporary, shared), "penstock-node-logs")


class XdistWorker(Protocol):
    """A worker that pytest-xdist is about to start, as its hook passes it."""

    workerinput: dict[str, object]


class NodeLogReports:
    """Attaches the logs of nodes to the reports of failed tests, and keeps them in pytest's directory."""

    def __init__(self, temporary: pytest.TempPathFactory, shared: Sequence[str]) -> None:
        self._temporary = temporary
        self._logs = node_logs.RunLogs(self._new_directory)
        self._logs.share(node_logs.ClusterLogs(Path(path), is_shared=True) for path in shared)
        self._outer: node_logs.RunLogs | None = None
        self._is_attached = False

    def _new_directory(self) -> Path:
        return self._temporary.mktemp("penstock-node-logs")

    def pytest_sessionstart(self) -> None:
        self._logs.share(node_logs.outside_of_runs())
        self._outer, node_logs.current = node_logs.current, self._logs

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: XdistWorker) -> None:
        """Let a worker of pytest-xdist report the logs of nodes that this process has started."""
        node.workerinput[SHARED] = [str(path) for path in self._logs.directories()]

    def pytest_sessionfinish(self) -> None:
        node_logs.current = self._outer
        self._logs.end_run()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self._is_attached = False
        self._logs.begin_test()
        try:
            return (yield)
        finally:
            self._logs.end_test()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed and not self._is_attached:
            self._is_attached = True
            fixtures = getattr(item, "funcargs", {}).values()  # items of other plugins have none
            used = {each.log_dir for each in fixtures if isinstance(each, Cluster)}
            report.sections += [(SECTION, text) for text in self._logs.of_failed_test(used)]
        return report
