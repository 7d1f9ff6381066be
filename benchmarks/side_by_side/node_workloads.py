"""The cost of a node by itself: its start, idle connections and partitions, and TLS handshakes."""

import subprocess
import time
from dataclasses import dataclass

from penstock.bench.loadgen import RUN_TIMEOUT_S, Loadgen, parse
from penstock.bench.process import process_cost
from side_by_side.brokers import Broker
from side_by_side.session import Measurement, RunFailed, Session

OBSERVED_S = 5.0


def start_and_first_acknowledgement(broker: Broker, loadgen: Loadgen) -> Measurement:
    """Start *broker* on an empty directory while a producer tries to connect every 5 ms.

    Formatting, which Apache Kafka needs first, isn't counted.
    """
    backoff = ("reconnect.backoff.ms=5", "reconnect.backoff.max.ms=5")
    command = loadgen.command("produce", broker.bootstrap, "first", 100, 1, *backoff)
    producer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        broker.start()
        stdout, stderr = producer.communicate(timeout=RUN_TIMEOUT_S)
    finally:
        producer.kill()
    seconds = parse(producer.returncode, stdout, stderr)["first_s"] - broker.launched_s
    cost = process_cost(broker.pid)
    return Measurement(seconds, broker_cpu_s=cost.cpu_seconds, resident_mb=cost.resident_bytes / 1e6)


@dataclass(frozen=True)
class IdleConnections:
    """Clients that open a connection with ApiVersions and then stay idle."""

    count: int

    def run(self, session: Session) -> Measurement:
        before = process_cost(session.broker.pid)
        command = session.raw_client("idle", "-", connections=self.count, seconds=600)
        clients = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            if clients.stdout is None or not clients.stdout.readline():
                raise RunFailed(f"{self.count} connections were not accepted")
            return _observed(session, before.resident_bytes)
        finally:
            clients.kill()
            clients.wait()


@dataclass(frozen=True)
class IdlePartitions:
    """Partitions that receive no records. The measured time is that of their creation, 200 at a time."""

    count: int

    def run(self, session: Session) -> Measurement:
        before = process_cost(session.broker.pid)
        began_s = time.monotonic()
        topics = [session.create_topic(200) for _ in range(self.count // 200)]
        seconds = time.monotonic() - began_s
        try:
            return _observed(session, before.resident_bytes, seconds)
        finally:
            for topic in topics:
                session.delete_topic(topic)


@dataclass(frozen=True)
class Handshakes:
    """Clients that connect, complete a full TLS handshake, send ApiVersions and close, again and again."""

    count: int
    connections: int = 10

    def run(self, session: Session) -> Measurement:
        count = session.scaled(self.count, least=self.connections)
        options = {"requests": count, "connections": self.connections}
        command = session.raw_client("connect", "-", over_tls=True, **options)
        return session.measured(lambda: session.outcome(command), None)


def _observed(session: Session, resident_before_bytes: int, seconds: float = OBSERVED_S) -> Measurement:
    before = process_cost(session.broker.pid)
    time.sleep(OBSERVED_S)
    after = process_cost(session.broker.pid)
    cpu_s = after.cpu_seconds - before.cpu_seconds
    added_mb = (after.resident_bytes - resident_before_bytes) / 1e6
    facts = {"added_mb": added_mb, "idle_cpu": cpu_s / OBSERVED_S}
    return Measurement(seconds, resident_mb=after.resident_bytes / 1e6, facts=facts)
