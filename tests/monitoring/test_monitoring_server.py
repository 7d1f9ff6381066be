"""The HTTP server of metrics and probes, and the metrics of the process itself."""

import platform
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.monitoring.process import registry_of
from penstock.monitoring.server import MonitoringServer
from penstock.protocol.software import VERSION


@contextmanager
def served(host: str = "127.0.0.1", **probes: Callable[[], str | None]) -> Iterator[str]:
    server = MonitoringServer(registry_of(), host, 0, {f"/{name}": probe for name, probe in probes.items()})
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.port}"
    finally:
        server.close()


def asked(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_a_process_shows_its_use_of_the_machine_and_its_build() -> None:
    with served() as url:
        status, text = asked(f"{url}/metrics")
    assert status == 200
    samples = {
        sample.name: sample for family in text_string_to_metric_families(text) for sample in family.samples
    }
    build = samples["penstock_build_info"].labels
    assert (build["version"], build["python"]) == (VERSION, platform.python_version())
    assert build["kernels"] in ("compiled", "python")
    if sys.platform == "linux":
        for name in ("cpu_seconds_total", "resident_memory_bytes", "virtual_memory_bytes", "open_fds"):
            assert samples[f"process_{name}"].value > 0, name
        assert samples["process_max_fds"].value >= samples["process_open_fds"].value
        assert samples["process_start_time_seconds"].value > 0


def test_probes_answer_what_is_missing() -> None:
    found: list[str | None] = ["recovering", None]
    with served(ready=lambda: found.pop(0)) as url:
        assert asked(f"{url}/ready") == (503, "recovering\n")
        assert asked(f"{url}/ready") == (200, "ok\n")


@pytest.mark.parametrize("path", ["", "/", "/metrics/", "/favicon.ico", "/other"])
def test_other_paths_are_not_found(path: str) -> None:
    with served(ready=lambda: None) as url:
        status, text = asked(url + path)
    assert (status, text) == (404, f"nothing is served at {path or '/'}: expected one of /metrics, /ready\n")


def test_a_slow_probe_delays_no_other_request() -> None:
    arrived, may_end = threading.Event(), threading.Event()

    def slow() -> None:
        arrived.set()
        may_end.wait(60)

    with served(slow=slow) as url:
        answers: list[tuple[int, str]] = []
        waiting = threading.Thread(target=lambda: answers.append(asked(f"{url}/slow")))
        waiting.start()
        assert arrived.wait(60)
        assert asked(f"{url}/metrics")[0] == 200
        may_end.set()
        waiting.join(60)
    assert answers == [(200, "ok\n")]


def test_it_listens_at_ipv6_addresses() -> None:
    try:
        with served("::1") as url:
            assert asked(f"{url}/metrics")[0] == 200
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
