"""Random requests have the same answers from Apache's worker and from Penstock's."""

import os
import random
from pathlib import Path

import pytest
from random_rest_requests import RandomRequest, RandomRequests, meaning

from apache_connect_worker import SETTINGS, ApacheWorker, connect_libs
from long_run import repetitions
from penstock.connect.worker import start
from penstock.testing import Cluster

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.timeout(300)]


FAILS_IN_KAFKA = ('"errors.deadletterqueue.topic.name": null', '"topics.regex": null')
"""Kafka answers these with a NullPointerException, and Penstock with the errors of the keys."""


def is_known_to_differ(request: RandomRequest) -> bool:
    """Whether Kafka fails, or notices that a patch has no body only after it has looked for the connector."""
    path = request.path.partition("?")[0]
    is_late = (request.method, path, request.body) == ("PATCH", "/connectors/x/config", "")
    return is_late or any(each in request.body for each in FAILS_IN_KAFKA)


def test_random_requests(tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    requests = RandomRequests(seed)
    libs = connect_libs()
    with (
        Cluster() as of_apache,
        Cluster() as of_ours,
        ApacheWorker(libs, of_apache.bootstrap_servers, tmp_path) as apache,
        start({**SETTINGS, "bootstrap.servers": of_ours.bootstrap_servers}) as ours,
    ):
        ours.wait_until_ready()
        for _ in range(repetitions("PENSTOCK_REST_REQUESTS", 200, 3_000)):
            request = requests.next()
            if not is_known_to_differ(request):
                found, expected = meaning(ours.url, request), meaning(apache.url, request)
                assert found == expected, request
