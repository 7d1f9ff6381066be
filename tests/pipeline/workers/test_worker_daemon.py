"""The daemon of a local session's Python workers."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from penstock.spark.workers import daemon


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError()])
def test_a_worker_whose_connection_spark_has_closed_ends_and_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    monkeypatch.setattr(daemon, "run", raising(error))
    assert daemon.worker(socket.socket(), True) == 1


def test_the_daemon_reports_any_other_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "run", raising(ValueError("something else")))
    with pytest.raises(ValueError, match="something else"):
        daemon.worker(socket.socket(), True)


def raising(error: Exception) -> Callable[[socket.socket, bool], int]:
    def run(sock: socket.socket, authenticated: bool) -> int:
        raise error

    return run
