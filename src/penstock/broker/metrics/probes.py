"""The probes of a node: `/healthz` and `/readyz`, in the sense of Kubernetes.

A node is healthy while its event loop answers; restarting it helps if it does not. It is ready while clients
can use it: a broker that recovers, is fenced or shuts down is healthy and not ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from penstock.broker.control.lifecycle import BrokerState

if TYPE_CHECKING:
    from penstock.broker.metrics.host import MetricsHost

LOOP_TIMEOUT_S: Final = 5.0
"""The longest wait for the event loop: probes of Kubernetes have their own timeout, and ask several times."""

_NOT_RUNNING: Final = {
    BrokerState.NOT_RUNNING: "the broker starts",
    BrokerState.STARTING: "the broker reads the metadata log, recovers its logs or registers",
    BrokerState.RECOVERY: "the broker is registered and waits to be unfenced",
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: "the broker shuts down: its leaderships move to other brokers",
    BrokerState.SHUTTING_DOWN: "the broker shuts down",
}


def liveness_problem(loop: asyncio.AbstractEventLoop, timeout_s: float = LOOP_TIMEOUT_S) -> str | None:
    """Return None if the loop answers, else a line that says so. Call it in another thread."""
    return _ask(loop, lambda: None, timeout_s)


def readiness_problem(host: MetricsHost, timeout_s: float = LOOP_TIMEOUT_S) -> str | None:
    """Return None if clients can use the node, else a line with what it lacks. Call it in another thread."""
    return _ask(host.loop, lambda: missing(host), timeout_s)


def missing(host: MetricsHost) -> str | None:
    """Return what the node lacks before clients can use it, or None. Call it on the event loop."""
    quorum, image = host.quorum, host.image
    if quorum.failure is not None:
        return f"the metadata log cannot be followed: {quorum.failure}"
    if host.config.is_broker and (reason := _NOT_RUNNING.get(host.lifecycle.state)) is not None:
        return reason
    if host.is_stopping:
        return "the node shuts down"
    if quorum.leader_id is None:
        return "no leader of the metadata quorum is known"
    applied, committed = image.offset + 1, quorum.high_watermark
    if applied < committed:
        return f"the metadata log was applied up to offset {applied}: expected {committed}"
    if host.config.is_broker:
        own = image.brokers.get(host.node_id)
        if own is None or own.fenced:
            return "the controller has fenced the broker"
    if not host.server.is_accepting:
        return "the listeners do not accept connections yet"
    return None


def _ask(loop: asyncio.AbstractEventLoop, question: Callable[[], str | None], timeout_s: float) -> str | None:
    answered: Future[str | None] = Future()

    def answer() -> None:
        try:
            answered.set_result(question())
        except Exception as error:
            answered.set_exception(error)

    try:
        loop.call_soon_threadsafe(answer)
    except RuntimeError:
        return "the event loop is closed"
    try:
        return answered.result(timeout_s)
    except TimeoutError:
        return f"the event loop has not answered for {timeout_s:g} s"
