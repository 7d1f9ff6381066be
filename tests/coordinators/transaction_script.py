"""The commands of scripts about transactions; see `coordinator_script` for the format of scripts.

The output of a command is every answer (`p <- …`), every appended record (`log …`), the markers to write, and
every action of a timer, in order. New producer ids are 1000, 1001, ….

Producers have names and keep the id and epoch that they received; `id=` and `epoch=` override these.

    init t p timeout=60s            init t p expect             (a producer that goes on after an error)
    add t p a:0 b:1                 verify t p a:0              (version=0 for the first protocol)
    end t p commit                  end t p abort version=0
    written t                       (every partition has the markers of t; `written t again` says it twice)
    describe t                      list states=Ongoing ids=1000 longer=5s pattern=t.*
    given t id=7 epoch=32766 state=Empty           (what an earlier coordinator has left in the log)
    advance 3s      fail NOT_ENOUGH_REPLICAS     restart      config transactional.id.expiration.ms=1h
    feature 1 (the level of transaction.version)     clock 1h (it is set anew)    producer-ids missing
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

from coordinator_script import Options, duration_ms

from penstock.coordinators.records import CoordinatorRecord, Records
from penstock.coordinators.transaction.admin import TransactionFilter
from penstock.coordinators.transaction.config import TransactionCoordinatorConfig
from penstock.coordinators.transaction.coordinator import TransactionCoordinator
from penstock.coordinators.transaction.metadata import NO_TIMEOUT_MS, TransactionMetadata
from penstock.coordinators.transaction.records import transaction_record
from penstock.coordinators.transaction.results import NeedsProducerId, TransactionMarkers
from penstock.coordinators.transaction.states import TransactionState
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TransactionLogKey,
    TransactionLogValue,
)

CONFIG_FIELDS = {name.replace("_", "."): name for name in TransactionCoordinatorConfig.__dataclass_fields__}


def partitions_of(words: list[str]) -> list[tuple[str, int]]:
    return [(word.split(":")[0], int(word.split(":")[1])) for word in words]


def show_partitions(partitions: list[tuple[str, int]]) -> str:
    return " ".join(f"{topic}:{partition}" for topic, partition in partitions) or "nothing"


@dataclass
class Producer:
    producer_id: int = -1
    producer_epoch: int = -1


class TransactionDriver:
    """One coordinator, its log and its producers."""

    def __init__(self) -> None:
        self.config = TransactionCoordinatorConfig()
        self.now_ms = 0
        self.log: Records = []
        self.producers: dict[str, Producer] = {}
        self.markers: dict[str, TransactionMarkers] = {}
        self.failures: list[ErrorCode] = []
        self.has_producer_ids = True
        self.transaction_version = 2
        self.coordinator_epoch = 0
        self.out: list[str] = []
        self._producer_ids = itertools.count(1000)
        self._start()

    def run(self, command: str) -> list[str]:
        self.out = []
        verb, *words = command.split()
        handler: Callable[[list[str]], None] = getattr(self, f"do_{verb.replace('-', '_')}")
        handler(words)
        return self.out

    # -- the owner's tasks ---------------------------------------------------------------------------

    def _start(self) -> None:
        self.coordinator = TransactionCoordinator(
            self.config,
            coordinator_epoch=self.coordinator_epoch,
            transaction_version=self.transaction_version,
        )
        self.markers = {}
        for record in self.log:
            self.coordinator.replay(record, self.now_ms)
        self.settle(self.coordinator.on_loaded(self.now_ms))

    def settle(self, records: Records) -> ErrorCode:
        """Append, replay and take the pending actions, as the broker does after every call."""
        error = ErrorCode.NONE
        if records and self.failures:
            error = self.failures.pop(0)
            self.say(f"log refused: {error.name}")
            assert self.coordinator.fail_append(records, error, self.now_ms) == []
        elif records:
            for record in records:
                self.log.append(record)
                self.say(f"log {self.show_record(record)}")
                self.coordinator.replay(record, self.now_ms)
        for markers in self.coordinator.take_markers():
            self.markers[markers.transactional_id] = markers
            self.say(self.show_markers(markers))
        for timed_out in self.coordinator.take_producer_id_requests():
            if self.has_producer_ids:
                new_id = self.new_producer_id()
                self.settle(self.coordinator.abort_timed_out(timed_out, new_id, self.now_ms))
            else:
                self.say(f"no producer id for {timed_out.transactional_id}")
        return error

    def new_producer_id(self) -> int:
        producer_id = next(self._producer_ids)
        self.say(f"new producer id {producer_id}")
        return producer_id

    def say(self, line: str) -> None:
        self.out.append(line)

    def producer(self, name: str) -> Producer:
        return self.producers.setdefault(name, Producer())

    # -- requests ------------------------------------------------------------------------------------

    def do_init(self, words: list[str]) -> None:
        options = Options(words)
        transactional_id, name, *flags = options.words
        producer = self.producer(name)
        expected = producer if "expect" in flags else Producer()
        request = InitProducerIdRequest(
            transactional_id="" if transactional_id == "-" else transactional_id,
            transaction_timeout_ms=duration_ms(options.get("timeout", "60s")),
            producer_id=int(options.get("id", str(expected.producer_id))),
            producer_epoch=int(options.get("epoch", str(expected.producer_epoch))),
            enable2_pc="2pc" in flags,
            keep_prepared_txn="keep" in flags,
        )
        records, response = self.coordinator.handle_init_producer_id(request, self.now_ms)
        if isinstance(response, NeedsProducerId):
            new_id = self.new_producer_id()
            records, response = self.coordinator.handle_init_producer_id(request, self.now_ms, new_id)
        assert not isinstance(response, NeedsProducerId)
        error = self.settle(records) or ErrorCode(response.error_code)
        if error is ErrorCode.NONE:
            producer.producer_id, producer.producer_epoch = response.producer_id, response.producer_epoch
            self.say(f"{name} <- id={producer.producer_id} epoch={producer.producer_epoch}")
        else:
            self.say(f"{name} <- {error.name}")

    def do_add(self, words: list[str]) -> None:
        options = Options(words)
        transactional_id, name, *where = options.words
        records, error = self.coordinator.handle_add_partitions(
            transactional_id,
            *self.claimed(name, options),
            partitions_of(where),
            int(options.get("version", "2")),
            self.now_ms,
        )
        self.say(f"{name} <- {(self.settle(records) or error).name}")

    def do_verify(self, words: list[str]) -> None:
        options = Options(words)
        transactional_id, name, *where = options.words
        errors = self.coordinator.handle_verify_partitions(
            transactional_id, *self.claimed(name, options), partitions_of(where)
        )
        for (topic, partition), error in errors.items():
            self.say(f"{name} <- {topic}:{partition} {error.name}")

    def do_end(self, words: list[str]) -> None:
        options = Options(words)
        transactional_id, name, how = options.words
        producer_id, producer_epoch = self.claimed(name, options)
        version = int(options.get("version", "2"))
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed={"commit": True, "abort": False}[how],
        )
        records, response = self.coordinator.handle_end_txn(request, version, self.now_ms)
        if isinstance(response, NeedsProducerId):
            new_id = self.new_producer_id()
            records, response = self.coordinator.handle_end_txn(request, version, self.now_ms, new_id)
        assert not isinstance(response, NeedsProducerId)
        error = self.settle(records) or ErrorCode(response.error_code)
        if error is not ErrorCode.NONE or response.producer_id < 0:
            self.say(f"{name} <- {error.name}")
            return
        producer = self.producer(name)
        producer.producer_id, producer.producer_epoch = response.producer_id, response.producer_epoch
        self.say(f"{name} <- id={producer.producer_id} epoch={producer.producer_epoch}")

    def claimed(self, name: str, options: Options) -> tuple[int, int]:
        producer = self.producer(name)
        return (
            int(options.get("id", str(producer.producer_id))),
            int(options.get("epoch", str(producer.producer_epoch))),
        )

    def do_written(self, words: list[str]) -> None:
        transactional_id, *flags = words
        markers = self.markers[transactional_id]
        if "again" not in flags:
            del self.markers[transactional_id]
        self.settle(
            self.coordinator.on_markers_written(
                transactional_id, markers.producer_id, markers.producer_epoch, self.now_ms
            )
        )

    # -- administration ------------------------------------------------------------------------------

    def do_describe(self, words: list[str]) -> None:
        state = self.coordinator.handle_describe_transaction("" if words[0] == "-" else words[0])
        if state.error_code:
            self.say(f"-> {ErrorCode(state.error_code).name}")
            return
        where = [(topic.topic, partition) for topic in state.topics for partition in topic.partitions]
        timeout_ms, start_ms = state.transaction_timeout_ms, state.transaction_start_time_ms
        self.say(
            f"-> {state.transaction_state} id={state.producer_id} epoch={state.producer_epoch}"
            f" timeout={'none' if timeout_ms == NO_TIMEOUT_MS else f'{timeout_ms / 1000:g}s'}"
            f" since={'never' if start_ms < 0 else f'{start_ms / 1000:g}s'} [{show_partitions(where)}]"
        )

    def do_list(self, words: list[str]) -> None:
        options = Options(words)
        request = ListTransactionsRequest(
            state_filters=[name for name in options.get("states", "").split(",") if name],
            producer_id_filters=[int(number) for number in options.get("ids", "").split(",") if number],
            duration_filter=duration_ms(options.get("longer", "-1")),
            transactional_id_pattern=options.get("pattern", "") or None,
        )
        try:
            transaction_filter = TransactionFilter.of(request)
        except KafkaError as error:
            self.say(f"-> {error}")
            return
        for name in transaction_filter.unknown_states:
            self.say(f"unknown state {name}")
        listed = self.coordinator.handle_list_transactions(transaction_filter, self.now_ms)
        shown = [f"{t.transactional_id} {t.transaction_state} id={t.producer_id}" for t in listed]
        self.say(f"-> {', '.join(sorted(shown)) or 'nothing'}")

    # -- environment ---------------------------------------------------------------------------------

    def do_given(self, words: list[str]) -> None:
        options = Options(words)
        metadata = TransactionMetadata(
            transactional_id=options.words[0],
            producer_id=int(options.get("id", "7")),
            producer_epoch=int(options.get("epoch", "0")),
            timeout_ms=duration_ms(options.get("timeout", "60s")),
            state=TransactionState(options.get("state", "Empty")),
            partitions=frozenset(partitions_of(options.words[1:])),
            start_timestamp_ms=duration_ms(options.get("since", "-1")),
            last_update_timestamp_ms=self.now_ms,
            client_transaction_version=int(options.get("version", "2")),
        )
        self.log.append(transaction_record(metadata, self.transaction_version))
        self._start()

    def do_advance(self, words: list[str]) -> None:
        end_ms = self.now_ms + duration_ms(words[0])
        while True:
            deadline_ms = self.coordinator.next_deadline_ms
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            before = len(self.out)
            self.settle(self.coordinator.on_timeout(self.now_ms))
            if len(self.out) > before:
                self.out.insert(before, f"[{self.now_ms / 1000:g}s]")
        self.now_ms = end_ms

    def do_clock(self, words: list[str]) -> None:
        by_ms = -duration_ms(words[0][1:]) if words[0].startswith("-") else duration_ms(words[0])
        self.now_ms += by_ms
        self.coordinator.shift_timers(by_ms)

    def do_fail(self, words: list[str]) -> None:
        self.failures += [ErrorCode[word] for word in words]

    def do_producer_ids(self, words: list[str]) -> None:
        self.has_producer_ids = {"there": True, "missing": False}[words[0]]

    def do_restart(self, words: list[str]) -> None:
        self.coordinator.on_unloaded()
        assert self.coordinator.take_markers() == []
        self.coordinator_epoch += 1
        self._start()

    def do_config(self, words: list[str]) -> None:
        changes = {CONFIG_FIELDS[key]: value for key, value in (word.split("=") for word in words)}
        self.config = replace(
            self.config,
            **{
                name: value == "true" if name.endswith("enable") else duration_ms(value)
                for name, value in changes.items()
            },
        )
        self._start()

    def do_feature(self, words: list[str]) -> None:
        self.transaction_version = int(words[0])
        self.coordinator.set_transaction_version(self.transaction_version)

    # -- output --------------------------------------------------------------------------------------

    def show_record(self, record: CoordinatorRecord) -> str:
        key, value = record.key, record.value
        assert isinstance(key, TransactionLogKey)
        if value is None:
            return f"{key.transactional_id} gone"
        assert isinstance(value, TransactionLogValue)
        state = TransactionState.of_status(value.transaction_status)
        shown = f"{key.transactional_id} {state.value} id={value.producer_id} epoch={value.producer_epoch}"
        if record.value_version >= 1 and value.previous_producer_id != value.producer_id:
            shown += f" previous={value.previous_producer_id}"
        if value.next_producer_id >= 0:
            shown += f" next={value.next_producer_id}"
        if value.transaction_partitions is not None:
            where = [(p.topic, number) for p in value.transaction_partitions for number in p.partition_ids]
            shown += f" [{show_partitions(where)}]"
        return shown + ("" if record.value_version == 1 else f" (version {record.value_version})")

    def show_markers(self, markers: TransactionMarkers) -> str:
        how = "commit" if markers.commit else "abort"
        return (
            f"markers {markers.transactional_id} {how} id={markers.producer_id}"
            f" epoch={markers.producer_epoch} coordinator={markers.coordinator_epoch}"
            f" version={markers.transaction_version} to {show_partitions(markers.partitions)}"
        )
