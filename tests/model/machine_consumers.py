"""Rules for consumers: groups and their offsets, reading, waiting for more, and records that are deleted."""

from broker_model import FENCED, OK, OLD_EPOCH, Partition, Read
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from machine_base import INDEX, READ_BYTES, WAIT_MS, MachineBase, Waiting
from model_reader import read
from node_client import EARLIEST, LATEST, TXN_OFFSET_COMMIT_VERSION

from broker_wire import Wire, fetch_request
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FetchResponse


class ConsumerRules(MachineBase):
    """Consumers in both isolation levels, with and without a group."""

    # -- offsets of groups ---------------------------------------------------------------------------

    @rule(group=INDEX, at=INDEX, offset=st.integers(0, 100), as_whom=INDEX)
    def commit_offset(self, group: int, at: int, offset: int, as_whom: int) -> None:
        name, partition = self.group(group), self.partition(at)
        member = self.model.groups[name].identity(as_whom)
        self.under_fault()
        error = self.client.commit_offset(name, partition, offset, member)
        if self.expect(error, self.model.groups[name].check_member(member, transactional=False)):
            self.model.groups[name].committed[partition] = (self.model.next_position(), offset)

    @rule(who=INDEX, group=INDEX, at=INDEX, offset=st.integers(0, 100), as_whom=INDEX)
    def commit_offset_in_transaction(self, who: int, group: int, at: int, offset: int, as_whom: int) -> None:
        producer, tid = self.transactional(who)
        name, partition = self.group(group), self.partition(at)
        identity = (producer.producer_id, producer.epoch)
        if producer.version == 1:
            added = self.client.add_offsets(tid, *identity, name)
            if not self.expect(added, self.model.add_group(tid, *identity, name)):
                return
            errors = OK
        else:
            errors = self.model.add_group(tid, *identity, name)
            errors = OLD_EPOCH if errors == FENCED else errors
        member = self.model.groups[name].identity(as_whom)
        if errors == OK:
            errors = self.model.groups[name].check_member(member, transactional=True)
        self.under_fault()
        version = TXN_OFFSET_COMMIT_VERSION[producer.version]
        error = self.client.commit_offset_in_transaction(
            name, partition, offset, tid, *identity, version=version, member=member
        )
        if self.expect(error, errors):
            pending = self.model.groups[name].pending.setdefault(producer.producer_id, {})
            pending[partition] = (self.model.next_position(), offset)

    @rule(group=INDEX, rejoin=st.booleans())
    def join(self, group: int, rejoin: bool) -> None:
        """Join as a member of its own: the previous one leaves and is no longer a member."""
        name = self.group(group)
        model = self.model.groups[name]
        if model.member is not None and not rejoin:
            assert self.client.leave_group(name, model.member[0]) == ErrorCode.NONE
            model.member, model.former = None, model.member
        before = model.generation
        member, model.generation = self.client.join_group(name, model.member[0] if model.member else "")
        assert model.generation > before
        model.member = (member, model.generation)

    @rule(group=INDEX)
    def leave(self, group: int) -> None:
        name = self.group(group)
        model = self.model.groups[name]
        if model.member is not None:
            assert self.client.leave_group(name, model.member[0]) == ErrorCode.NONE
            model.member, model.former = None, model.member
            model.generation += 1

    @rule(group=INDEX, at=INDEX, require_stable=st.booleans())
    def fetch_offset(self, group: int, at: int, require_stable: bool) -> None:
        self.check_offset(self.group(group), self.partition(at), require_stable=require_stable)

    def check_offset(self, group: str, partition: Partition, *, require_stable: bool) -> None:
        found = self.client.committed_offset(group, partition, require_stable=require_stable)
        expected = self.model.groups[group].offset(partition, require_stable=require_stable)
        assert found == expected, f"{group} {partition}: {found}, expected {expected}"

    # -- reading -------------------------------------------------------------------------------------

    @rule(at=INDEX, offset=st.integers(0, 1 << 16), committed=st.booleans(), max_bytes=READ_BYTES)
    def read(self, at: int, offset: int, committed: bool, max_bytes: int) -> None:
        partition = self.partition(at)
        self.check_read(partition, offset, committed=committed, max_bytes=max_bytes)

    def check_committed(self, partition: Partition) -> None:
        start = self.model.partitions[partition].log_start_offset
        self.check_read(partition, start, committed=True, max_bytes=1 << 20)

    def check_read(self, partition: Partition, offset: int, *, committed: bool, max_bytes: int) -> None:
        log = self.model.partitions[partition]
        end = log.last_stable_offset if committed else log.end
        offset %= end + 2
        if not log.log_start_offset <= offset <= log.end:
            refused = self.client.fetch(partition, offset, committed=committed)
            assert refused.error_code == ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode(refused.error_code).name
            return
        records, data = read(self.client, partition, offset, committed=committed, max_bytes=max_bytes)
        note(f"{partition} from {offset}: {[(r.offset, r.value) for r in records]}")
        told = (data.log_start_offset, data.high_watermark)
        assert told == (log.log_start_offset, log.end), f"{partition}: {told}"
        assert data.last_stable_offset in log.stable_offsets(), f"{partition}: {data.last_stable_offset}"
        found = [(record.offset, record.key, record.value) for record in records]
        expected = list(log.visible(offset, committed=committed))
        if log.compacted:
            check_compacted(found, expected, list(log.visible(offset, committed=True)))
        else:
            assert found == expected

    @rule(at=INDEX, committed=st.booleans())
    def list_offsets(self, at: int, committed: bool) -> None:
        self.check_offsets(self.partition(at), committed=committed)

    def check_offsets(self, partition: Partition, *, committed: bool) -> None:
        log = self.model.partitions[partition]
        earliest, latest = (
            self.client.offset(partition, at, committed=committed) for at in (EARLIEST, LATEST)
        )
        expected = log.stable_offsets() if committed else [log.end]
        assert earliest == log.log_start_offset, f"{partition} starts at {earliest}"
        assert latest in expected, f"{partition} ends at {latest}, not {expected}"

    @precondition(lambda self: len(self.waiting) < 2)
    @rule(at=INDEX, committed=st.booleans())
    def wait_for_more(self, at: int, committed: bool) -> None:
        """Send a fetch from the end of what its reader may read, and leave it waiting."""
        partition = self.partition(at)
        log = self.model.partitions[partition]
        offset = log.last_stable_offset if committed else log.end
        request = fetch_request(
            partition[0], {partition[1]: offset}, max_wait_ms=WAIT_MS, isolation_level=int(committed)
        )
        wire = Wire(self.node.bootstrap_servers)
        wire.send(request, 12)
        self.waiting.append(Waiting(wire, partition, offset, committed))

    @invariant()
    def those_who_wait_are_served(self) -> None:
        """Check that waiting fetches are answered once there is more, and with at least one record."""
        type(self).steps += 1
        for waiting in list(self.waiting):
            log = self.model.partitions[waiting.partition]
            if waiting.offset < (log.last_stable_offset if waiting.committed else log.end):
                self.waiting.remove(waiting)
                data = waiting.wire.receive(FetchResponse).responses[0].partitions[0]
                waiting.wire.socket.close()
                assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code).name
                assert data.records, f"{waiting.partition}: woken at {waiting.offset} for nothing"

    # -- deletion ------------------------------------------------------------------------------------

    @rule(at=INDEX, offset=st.integers(0, 1 << 16))
    def delete_records(self, at: int, offset: int) -> None:
        partition = self.partition(at)
        log = self.model.partitions[partition]
        offset %= log.end + 2
        self.under_fault()
        error, low_watermark = self.client.delete_records(partition, offset)
        if log.compacted:
            assert error == ErrorCode.POLICY_VIOLATION, error.name
        elif offset > log.end:
            assert error == ErrorCode.OFFSET_OUT_OF_RANGE, error.name
        else:
            assert error == ErrorCode.NONE, error.name
            log.log_start_offset = max(log.log_start_offset, offset)
            self.send_away(lambda waiting: waiting.partition == partition)  # may be answered already
            assert low_watermark == log.log_start_offset


def check_compacted(found: list[Read], expected: list[Read], committed: list[Read]) -> None:
    """Check that all records were written in this order and that no key lacks its last committed value."""
    assert set(found) <= set(expected)
    assert found == sorted(found), "in the order of offsets"
    last = {key: (offset, key, value) for offset, key, value in committed}
    assert {record for record in last.values() if record[2] is not None} <= set(found)
