"""Who encrypts the connections of a node: the choice at its start, and how it is reported."""

import errno
import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from certificates import Authority
from in_process import run, running_node
from penstock.broker.metrics.server import BrokerCollector
from penstock.broker.node import Broker
from penstock.broker.tls import kernel_support, listeners
from penstock.broker.tls.kernel_support import OP_ENABLE_KTLS, kernel_tls_obstacle
from penstock.security.tls.settings import TlsSettings
from penstock.security.tls.stores import Stores


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("mode") / "authority")


@pytest.fixture(scope="module")
def stores(authority: Authority) -> Stores:
    return Stores.read(TlsSettings(keystore_type="PEM", keystore_location=str(authority.server.store)))


def reported_modes(broker: Broker) -> dict[str, float]:
    (metric,) = [found for found in BrokerCollector(broker).collect() if found.name == "penstock_tls_mode"]
    return {sample.labels["mode"]: sample.value for sample in metric.samples}


@pytest.mark.parametrize(
    ("obstacle", "mode", "line"),
    [
        (None, "kernel", "the kernel encrypts connections with TLS mode=kernel"),
        ("no module", "process", "this process encrypts connections with TLS mode=process "),
    ],
    ids=["kernel", "process"],
)
def test_the_kernel_encrypts_if_it_can(
    tmp_path: Path,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    obstacle: str | None,
    mode: str,
    line: str,
) -> None:
    monkeypatch.setattr(listeners, "kernel_tls_obstacle", lambda stores: obstacle)
    caplog.set_level(logging.INFO, listeners.__name__)
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server.store),
    }

    async def story() -> None:
        async with running_node(tmp_path, **properties) as broker:
            tls = broker.tls.of("SSL")
            assert tls is not None
            assert broker.tls.mode == mode
            assert reported_modes(broker) == {mode: 1}
            assert bool(tls.context.options & OP_ENABLE_KTLS) == (mode == "kernel")
            first = tls.context
            broker.tls.reconfigure(broker.config)
            assert tls.context is not first
            for context in (tls.context, tls.client_context):
                assert bool(context.options & OP_ENABLE_KTLS) == (mode == "kernel")

    run(story())
    lines = [record.getMessage() for record in caplog.records if record.name == listeners.__name__]
    assert len(lines) == 1
    assert lines[0].startswith(line)
    assert obstacle is None or lines[0].endswith(f"no_kernel_tls={obstacle!r}")


def test_a_node_without_tls_reports_no_mode(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, listeners.__name__)

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            assert broker.tls.mode is None
            assert reported_modes(broker) == {}

    run(story())
    assert not [record for record in caplog.records if record.name == listeners.__name__]


class Kernel:
    """A stand-in for a connected socket of a kernel that has kernel TLS, or refuses it."""

    def __init__(self, error: int = 0) -> None:
        self._error = error

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        assert (level, option, value) == (6, 31, b"tls")
        if self._error:
            raise OSError(self._error, "refused")


@pytest.mark.parametrize(
    ("kernel", "trial", "words"),
    [
        (Kernel(), True, None),
        (Kernel(errno.ENOENT), True, "modprobe tls"),
        (Kernel(errno.ENOPROTOOPT), True, "modprobe tls"),
        (Kernel(errno.EPERM), True, "the kernel refuses it: refused"),
        (Kernel(), False, "OpenSSL"),
        (Kernel(), ssl.SSLError(1, "no shared cipher"), "a trial handshake fails: no shared cipher"),
    ],
    ids=["both", "no module", "no protocols", "refused", "no OpenSSL", "no handshake"],
)
def test_the_obstacle_has_a_name(
    stores: Stores,
    monkeypatch: pytest.MonkeyPatch,
    kernel: Kernel,
    trial: bool | ssl.SSLError,
    words: str | None,
) -> None:
    @contextmanager
    def connected() -> Iterator[tuple[Kernel, Kernel]]:
        yield kernel, kernel

    def offloads(stores: Stores) -> bool:
        if isinstance(trial, ssl.SSLError):
            raise trial
        return trial

    monkeypatch.setattr(kernel_support, "_connected", connected)
    monkeypatch.setattr(kernel_support, "_offloads", offloads)
    obstacle = kernel_tls_obstacle(stores)
    assert (obstacle is None) == (words is None)
    assert words is None or words in str(obstacle)


def test_a_trial_handshake_agrees_with_the_kernel(stores: Stores) -> None:
    assert kernel_support._offloads(stores) == (kernel_tls_obstacle(stores) is None)
