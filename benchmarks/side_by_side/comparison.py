"""The rounds: both brokers in turn are started fresh, warmed up, and measured on the missing rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.bench.loadgen import Loadgen, LoadgenError
from penstock.protocol.api_keys import TARGET_RELEASE
from side_by_side.brokers import Broker, BrokerError, Kafka, Penstock
from side_by_side.certificate import key_store
from side_by_side.client_workloads import LibrdkafkaConsume
from side_by_side.cores import Cores
from side_by_side.data import Data
from side_by_side.node_workloads import Handshakes, start_and_first_acknowledgement
from side_by_side.results import Results, Run
from side_by_side.rows import START, Row
from side_by_side.session import RunFailed, Session
from side_by_side.workloads import Consume, Produce

BROKERS = (Penstock.name, Kafka.name)
WARM_UP = (
    Produce(Data(1024), payload_bytes=500e6),
    Consume(Data(1024), payload_bytes=1e9, log_bytes=250e6),
    LibrdkafkaConsume(100, 500_000),
)
TLS_WARM_UP = (  # as much as the rows send: a JVM's processor time for encryption still falls after less
    *WARM_UP,
    Produce(Data(1024), over_tls=True),
    Consume(Data(1024), over_tls=True),
    Handshakes(30_000),
)


@dataclass(frozen=True)
class Comparison:
    """The rows to measure, the place to run them, and the file for the figures.

    Args:
        directory: on the disk to measure; holds prepared batches and the brokers' data.
        only: names of brokers; both by default.
        say: prints one line of progress.
    """

    rows: Sequence[Row]
    results: Results
    directory: Path
    cores: Cores
    jars: Path
    scale: float
    only: Sequence[str]
    say: Callable[[str], None]

    def run(self, rounds: int) -> None:
        """Run every incomplete round up to *rounds*."""
        for round_ in range(1, rounds + 1):
            for name in BROKERS if round_ % 2 else reversed(BROKERS):
                if name in self.only:
                    self._take_turn(name, round_)

    def _take_turn(self, name: str, round_: int) -> None:
        all_missing = [row for row in self.rows if not self.results.measured(row.name, name, round_)]
        for over_tls in (False, True):
            missing: Sequence[Row] = [row for row in all_missing if row.over_tls is over_tls]
            while missing:  # repeats if a broker died
                missing = self._session(name, round_, missing, over_tls)

    def _session(self, name: str, round_: int, rows: Sequence[Row], over_tls: bool) -> Sequence[Row]:
        """Run *rows* on a new broker, and return those that are left if it has died.

        Only rows over TLS get a broker with a listener for them, so that it takes no part in the others.
        """
        store = key_store(self.directory / "certificate") if over_tls else None
        broker = make_broker(name, self.directory, self.cores, self.jars, store)
        loadgen = Loadgen()
        try:
            self.say(f"round {round_}, {name}: starting")
            start = start_and_first_acknowledgement(broker, loadgen)
            if not over_tls:
                self.results.add(Run(START, name, round_, self.scale, start))
            session = Session(
                broker,
                self.cores,
                loadgen=loadgen,
                jars=self.jars,
                cache=self.directory / "batches",
                scale=self.scale,
            )
            for work in TLS_WARM_UP if over_tls else WARM_UP:
                work.run(session)
            for done, row in enumerate(rows, 1):
                self._measure(session, row, round_)
                if not broker.running():
                    self.say(f"{name} has ended: {broker.log_tail()[-500:]}")
                    return rows[done:]
        finally:
            broker.stop()
        return []

    def _measure(self, session: Session, row: Row, round_: int) -> None:
        name = session.broker.name
        try:
            measurement = row.work.run(session)
        except (RunFailed, LoadgenError, BrokerError) as error:
            self.say(f"round {round_}, {name}, {row.name}: {error}")
            self.results.add(Run(row.name, name, round_, self.scale, error=str(error)[:500]))
            return
        self.results.add(Run(row.name, name, round_, self.scale, measurement))
        records_per_s = (measurement.records or 0) / measurement.seconds
        rate = f"{records_per_s:,.0f} records/s" if records_per_s else f"{measurement.seconds:.2f} s"
        p99 = f", p99 {measurement.p99_ms:.2f} ms" if measurement.p99_ms is not None else ""
        busy = f", core {measurement.core_busy:.0%} busy" if measurement.core_busy is not None else ""
        self.say(f"round {round_}, {name}, {row.name}: {rate}{p99}{busy}")


def make_broker(
    name: str, directory: Path, cores: Cores, jars: Path, key_store: Path | None = None
) -> Broker:
    """Return a broker that is not started yet."""
    place = directory / name
    if name == Penstock.name:
        return Penstock(place, cores.broker, key_store=key_store)
    return Kafka(place, cores.broker, jars, TARGET_RELEASE, key_store=key_store)
