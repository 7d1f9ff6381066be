"""One server for a module's tests, on a real node; its queries run in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import Cluster

sys.path.append(str(Path(__file__).parents[1] / "engine"))

from sql_service import Service, served


@pytest.fixture(scope="module")
def service(penstock_cluster: Cluster) -> Iterator[Service]:
    with served(penstock_cluster.bootstrap_servers) as found:
        yield found
