# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compaction over runs of batches, compiled: see `compaction_runs_py`, its twin."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from penstock.protocol.kernels.batch_header cimport (
    AT_ATTRIBUTES,
    AT_BASE_TIMESTAMP,
    AT_COUNT,
    AT_CRC,
    AT_LAST_OFFSET_DELTA,
    AT_LENGTH,
    AT_MAGIC,
    AT_MAX_TIMESTAMP,
    AT_PRODUCER_EPOCH,
    AT_PRODUCER_ID,
    big_endian,
    put_big_endian,
)
from penstock.protocol.kernels.compaction cimport (
    Compacted,
    OffsetMap,
    Rebuilt,
    Section,
    Verdict,
    index_section,
    judge_section,
    read_compacted,
    rebuild_section,
)
from penstock.protocol.kernels.crc32c cimport crc32c_of, crc32c_prepare
from penstock.protocol.kernels.raw_bytes cimport OK, View, reserve

from penstock.protocol.batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    CURRENT_MAGIC,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)
from penstock.protocol.kernels.compaction_runs_py import KEPT_IN_EMPTY, KEPT_WHEN_REBUILT, FilteredRun

cdef Py_ssize_t _HEADER_BYTES = HEADER_SIZE
cdef int64_t _NO_TIMESTAMP = NO_TIMESTAMP
cdef int _MAGIC = CURRENT_MAGIC
cdef int _COMPRESSED = COMPRESSION_MASK
cdef int _TRANSACTIONAL = TRANSACTIONAL_MASK
cdef int _CONTROL = CONTROL_MASK
cdef int _APPEND_TIME = TIMESTAMP_TYPE_MASK
cdef int _HORIZON = DELETE_HORIZON_MASK
cdef int _IN_EMPTY = KEPT_IN_EMPTY
cdef int _WHEN_REBUILT = KEPT_WHEN_REBUILT

crc32c_prepare()


cdef struct Plain:
    # A batch that needs nothing but its own bytes and the map.
    const uint8_t* at
    Py_ssize_t size
    int attributes
    int64_t last_offset
    int64_t producer_id
    int16_t producer_epoch
    Section section


cdef bint _read_plain(
    const uint8_t* at,
    Py_ssize_t room,
    int64_t lowest_offset,
    int64_t limit_offset,
    int64_t committed_below,
    Plain* found,
) noexcept nogil:
    """Whether a plain and sound batch of at most `room` bytes begins here; reads it."""
    cdef int32_t length
    cdef uint32_t crc
    cdef Section* section = &found.section
    if room < _HEADER_BYTES:
        return False
    length = <int32_t>big_endian(at + AT_LENGTH, 4)
    if at[AT_MAGIC] != _MAGIC or length < _HEADER_BYTES - 12 or length > room - 12:
        return False
    found.at = at
    found.size = 12 + <Py_ssize_t>length
    found.attributes = <int>big_endian(at + AT_ATTRIBUTES, 2)
    found.producer_id = <int64_t>big_endian(at + AT_PRODUCER_ID, 8)
    found.producer_epoch = <int16_t>big_endian(at + AT_PRODUCER_EPOCH, 2)
    section.at = at + _HEADER_BYTES
    section.size = found.size - _HEADER_BYTES
    section.base_offset = <int64_t>big_endian(at, 8)
    section.last_offset_delta = <int32_t>big_endian(at + AT_LAST_OFFSET_DELTA, 4)
    section.base_timestamp = <int64_t>big_endian(at + AT_BASE_TIMESTAMP, 8)
    section.max_timestamp = <int64_t>big_endian(at + AT_MAX_TIMESTAMP, 8)
    section.count = <int32_t>big_endian(at + AT_COUNT, 4)
    section.has_append_time = (found.attributes & _APPEND_TIME) != 0
    if (
        found.attributes & _COMPRESSED
        or (found.attributes & _TRANSACTIONAL and found.producer_id < 0)
        or section.count < 0
        or section.count > section.size // 7
        or section.last_offset_delta < 0
        or section.base_offset < lowest_offset
        or section.base_offset >= limit_offset
        or section.last_offset_delta >= limit_offset - section.base_offset
    ):
        return False
    found.last_offset = section.base_offset + section.last_offset_delta
    if found.attributes & (_TRANSACTIONAL | _CONTROL) and found.last_offset >= committed_below:
        return False
    crc = crc32c_of(at + AT_ATTRIBUTES, found.size - AT_ATTRIBUTES)
    return crc == <uint32_t>big_endian(at + AT_CRC, 4)


cdef class _Run:
    """A run as it is read: from `position` to `stop`, its offsets from `lowest_offset` to `limit_offset`."""

    cdef View window
    cdef Py_ssize_t position, stop
    cdef int64_t lowest_offset, limit_offset, committed_below

    def __cinit__(
        self,
        window,
        int64_t start,
        int64_t stop,
        int64_t lowest_offset,
        int64_t limit_offset,
        int64_t committed_below,
    ):
        self.window = View(window)
        if not 0 <= start <= stop <= self.window.size:
            raise ValueError(f"a run from {start} to {stop} in {self.window.size} bytes")
        if lowest_offset < 0:
            raise ValueError(f"a run from offset {lowest_offset} on")
        self.position = start
        self.stop = stop
        self.lowest_offset = lowest_offset
        self.limit_offset = limit_offset
        self.committed_below = committed_below

    cdef inline bint _next(self, Plain* found) noexcept nogil:
        return _read_plain(
            self.window.at + self.position,
            self.stop - self.position,
            self.lowest_offset,
            self.limit_offset,
            self.committed_below,
            found,
        )

    cdef inline void _pass(self, const Plain* found) noexcept nogil:
        self.position += found.size
        self.lowest_offset = found.last_offset + 1


cdef enum Marker:
    NO_MARKER = -1
    ABORT = 0
    COMMIT = 1


cdef Marker _marker_type(const Plain* batch) noexcept nogil:
    """What a control batch says of its transaction; NO_MARKER where it isn't for a run to know."""
    cdef const Section* section = &batch.section
    cdef Compacted record
    cdef int16_t kind
    if section.count != 1 or not batch.attributes & _TRANSACTIONAL:
        return NO_MARKER
    if read_compacted(section.at, section.size, 0, section.last_offset_delta, &record) != OK:
        return NO_MARKER
    if record.end != section.size or record.key_size < 4 or record.key[0] > 0x7F:
        return NO_MARKER
    kind = <int16_t>big_endian(record.key + 2, 2)
    return <Marker>kind if kind == ABORT or kind == COMMIT else NO_MARKER


cdef int64_t _FREE = INT64_MIN  # no producer's id


cdef class ProducerIds:
    """A set of producer ids, as far as compaction needs one."""

    cdef int64_t* slots
    cdef uint64_t mask, used

    def __cinit__(self):
        self.used = 0
        self.mask = 15
        self.slots = _free_slots(16)
        if self.slots == NULL:
            raise MemoryError("no memory for producer ids")

    def __dealloc__(self):
        free(self.slots)

    def __len__(self):
        return self.used

    def __contains__(self, int64_t producer_id):
        return self.slots[self._place(producer_id)] == producer_id

    def add(self, int64_t producer_id):
        if not self._add(producer_id):
            raise MemoryError("no memory for producer ids")

    def discard(self, int64_t producer_id):
        self._discard(producer_id)

    cdef uint64_t _home(self, int64_t producer_id) noexcept nogil:
        return (<uint64_t>producer_id * <uint64_t>0x9E3779B97F4A7C15 >> 32) & self.mask

    cdef uint64_t _place(self, int64_t producer_id) noexcept nogil:
        """Its slot, or the free one where it belongs."""
        cdef uint64_t at = self._home(producer_id)
        while self.slots[at] != producer_id and self.slots[at] != _FREE:
            at = (at + 1) & self.mask
        return at

    cdef bint _add(self, int64_t producer_id) noexcept nogil:
        """False where memory is out."""
        cdef uint64_t at = self._place(producer_id)
        if self.slots[at] == producer_id:
            return True
        if self.used * 2 > self.mask:
            if not self._grow():
                return False
            at = self._place(producer_id)
        self.slots[at] = producer_id
        self.used += 1
        return True

    cdef bint _grow(self) noexcept nogil:
        cdef int64_t* old = self.slots
        cdef uint64_t i, count = self.mask + 1
        cdef int64_t* grown = _free_slots(count * 2)
        if grown == NULL:
            return False
        self.slots = grown
        self.mask = count * 2 - 1
        for i in range(count):
            if old[i] != _FREE:
                grown[self._place(old[i])] = old[i]
        free(old)
        return True

    cdef bint _discard(self, int64_t producer_id) noexcept nogil:
        """Whether it was there."""
        cdef uint64_t hole = self._place(producer_id), at
        if self.slots[hole] != producer_id:
            return False
        self.used -= 1
        at = hole
        while True:  # what was displaced by it moves up, so that probing never meets a hole too early
            at = (at + 1) & self.mask
            if self.slots[at] == _FREE:
                break
            if ((at - self._home(self.slots[at])) & self.mask) >= ((at - hole) & self.mask):
                self.slots[hole] = self.slots[at]
                hole = at
        self.slots[hole] = _FREE
        return True


cdef int64_t* _free_slots(uint64_t count) noexcept nogil:
    cdef int64_t* slots = <int64_t*>malloc(count * sizeof(int64_t))
    cdef uint64_t i
    if slots != NULL:
        for i in range(count):
            slots[i] = _FREE
    return slots


def index_run(OffsetMap offsets, run, int64_t start_offset):
    cdef _Run at = _Run(*run)
    cdef Plain found
    cdef bint is_full = False
    cdef int32_t number
    with nogil:
        while at._next(&found):
            if found.attributes & _CONTROL:
                if _marker_type(&found) == NO_MARKER:
                    break
            elif index_section(offsets, &found.section, start_offset, &is_full, &number) != OK or is_full:
                break
            if found.last_offset >= start_offset:
                offsets.latest_offset = found.last_offset
            at._pass(&found)
    return at.position, at.lowest_offset


cdef struct Mark:
    int64_t last_offset
    int64_t position
    int64_t largest_timestamp
    int64_t largest_timestamp_offset


cdef class IndexMarks:
    """Where a growing segment's indexes get their entries; its twin says more."""

    cdef readonly int64_t size, largest_timestamp, largest_timestamp_offset
    cdef int64_t interval_bytes, bytes_since_entry
    cdef bytearray entries
    cdef Mark* at
    cdef Py_ssize_t count

    def __init__(self, int64_t base_offset, int64_t interval_bytes):
        self.size = 0
        self.largest_timestamp = _NO_TIMESTAMP
        self.largest_timestamp_offset = base_offset
        self.interval_bytes = interval_bytes
        self.bytes_since_entry = 0
        self.entries = bytearray()
        self.count = 0

    cdef void _reserve_entries(self, Py_ssize_t more) except *:
        reserve(self.entries, (self.count + more) * <Py_ssize_t>sizeof(Mark))
        self.at = <Mark*>PyByteArray_AS_STRING(self.entries)

    cdef inline void _add(
        self, int64_t last_offset, int64_t max_timestamp, int64_t size_bytes
    ) noexcept nogil:
        """The caller has reserved the room."""
        cdef Mark* mark
        if max_timestamp > self.largest_timestamp:
            self.largest_timestamp = max_timestamp
            self.largest_timestamp_offset = last_offset
        if self.bytes_since_entry > self.interval_bytes:
            self.bytes_since_entry = 0
            mark = self.at + self.count
            mark.last_offset = last_offset
            mark.position = self.size
            mark.largest_timestamp = self.largest_timestamp
            mark.largest_timestamp_offset = self.largest_timestamp_offset
            self.count += 1
        self.bytes_since_entry += size_bytes
        self.size += size_bytes

    def add(self, int64_t last_offset, int64_t max_timestamp, int64_t size_bytes):
        self._reserve_entries(1)
        self._add(last_offset, max_timestamp, size_bytes)

    def take_entries(self):
        cdef const Mark* mark = self.at
        cdef list taken = []
        cdef Py_ssize_t i
        for i in range(self.count):
            taken.append(
                (
                    mark[i].last_offset,
                    mark[i].position,
                    mark[i].largest_timestamp,
                    mark[i].largest_timestamp_offset,
                )
            )
        self.count = 0
        return taken


cdef struct LastRecord:
    # Of a producer; the data's offset is -1 where there is a marker only.
    int64_t producer_id
    int64_t data_offset
    int16_t epoch


cdef class RunFilter:
    """Keeps of runs of batches what compaction keeps; its twin says more."""

    cdef OffsetMap offsets
    cdef ProducerIds committed
    cdef bytearray last_records, marks
    cdef const LastRecord* last_at
    cdef Py_ssize_t producers
    cdef int64_t now_ms, new_horizon_ms, up_to_offset

    def __init__(
        self,
        OffsetMap offsets,
        last_records,
        ProducerIds committed not None,
        *,
        int64_t now_ms,
        int64_t new_horizon_ms,
        int64_t up_to_offset,
    ):
        cdef LastRecord* last
        cdef Py_ssize_t i
        self.offsets = offsets
        self.now_ms = now_ms
        self.new_horizon_ms = new_horizon_ms
        self.up_to_offset = up_to_offset
        self.marks = bytearray()
        self.committed = committed
        self.producers = len(last_records)
        self.last_records = bytearray(self.producers * <Py_ssize_t>sizeof(LastRecord))
        last = <LastRecord*>PyByteArray_AS_STRING(self.last_records)
        for i, producer_id in enumerate(sorted(last_records)):
            data_offset, epoch = last_records[producer_id]
            last[i].producer_id = producer_id
            last[i].data_offset = -1 if data_offset is None else data_offset
            last[i].epoch = epoch
        self.last_at = last

    cdef bint _keeps_header(self, const Plain* batch) noexcept nogil:
        cdef const LastRecord* last = self.last_at
        cdef Py_ssize_t low = 0, high = self.producers, middle
        if batch.last_offset + 1 == self.up_to_offset:
            return True
        if batch.producer_id < 0:
            return False
        while low < high:
            middle = (low + high) >> 1
            if last[middle].producer_id < batch.producer_id:
                low = middle + 1
            else:
                high = middle
        if low == self.producers or last[low].producer_id != batch.producer_id:
            return False
        if last[low].data_offset >= 0:
            return last[low].data_offset == batch.last_offset
        return batch.attributes & _CONTROL and last[low].epoch == batch.producer_epoch

    def filter(self, run, IndexMarks marks):
        cdef _Run at = _Run(*run)
        cdef Py_ssize_t room = at.stop - at.position
        cdef bytearray data = bytearray()
        cdef uint8_t* start
        cdef uint8_t* end
        cdef uint8_t* keep
        cdef int64_t messages_read = 0, messages_written = 0, keyless = 0
        cdef Plain batch
        cdef Verdict verdict
        reserve(self.marks, room // 7 + 1)
        keep = <uint8_t*>PyByteArray_AS_STRING(self.marks)
        marks._reserve_entries(room // _HEADER_BYTES + 1)
        # no record is shorter than seven bytes, and none grows by more than ten
        PyByteArray_Resize(data, room + room // 7 * 10)
        start = end = <uint8_t*>PyByteArray_AS_STRING(data)
        with nogil:
            while at._next(&batch) and self._filter_batch(&batch, keep, marks, &verdict, &end):
                messages_read += verdict.count
                messages_written += verdict.kept
                keyless += verdict.keyless
                at._pass(&batch)
        PyByteArray_Resize(data, end - start)
        return FilteredRun(data, at.position, at.lowest_offset, messages_read, messages_written, keyless)

    cdef bint _judge_marker(self, const Plain* batch, uint8_t* keep, Verdict* verdict) noexcept nogil:
        """A marker goes as a tombstone does, unless a record of its transaction was read before it."""
        cdef Marker kind = _marker_type(batch)
        cdef bint is_needless
        if kind == NO_MARKER:
            return False
        is_needless = kind == ABORT or not self.committed._discard(batch.producer_id)
        keep[0] = 1
        verdict.count = 1
        if is_needless and batch.attributes & _HORIZON and batch.section.base_timestamp <= self.now_ms:
            verdict.count = 0
        verdict.kept = verdict.count
        verdict.keyless = 0
        verdict.has_tombstone = is_needless
        return True

    cdef bint _filter_batch(
        self, const Plain* batch, uint8_t* keep, IndexMarks marks, Verdict* verdict, uint8_t** end
    ) noexcept nogil:
        """Write what remains of a batch to `end`; False where it isn't for a run."""
        cdef bint has_horizon = (batch.attributes & _HORIZON) != 0, gets_horizon
        cdef int64_t base_timestamp = batch.section.base_timestamp
        cdef int64_t max_timestamp = batch.section.max_timestamp
        cdef bint keeps_tombstones = not has_horizon or self.now_ms < base_timestamp
        cdef uint8_t* start = end[0]
        cdef Rebuilt rebuilt
        cdef int32_t number
        if batch.attributes & _CONTROL:
            if not self._judge_marker(batch, keep, verdict):
                return False
        else:
            if judge_section(self.offsets, &batch.section, keeps_tombstones, keep, verdict, &number) != OK:
                return False
            if batch.attributes & _TRANSACTIONAL and not self.committed._add(batch.producer_id):
                return False
        gets_horizon = verdict.has_tombstone and not has_horizon
        if verdict.kept == 0:
            if not self._keeps_header(batch):
                return True
            end[0] = _write_batch(
                batch, start, batch.attributes & _IN_EMPTY, 0, _NO_TIMESTAMP, max_timestamp, 0
            )
        elif verdict.kept == verdict.count and not gets_horizon:
            memcpy(start, batch.at, batch.size)
            end[0] = start + batch.size
        else:
            if gets_horizon:
                base_timestamp = self.new_horizon_ms
            rebuild_section(
                &batch.section,
                keep,
                &base_timestamp if gets_horizon or has_horizon else NULL,
                start + _HEADER_BYTES,
                &rebuilt,
                &number,
            )
            max_timestamp = rebuilt.max_timestamp
            end[0] = _write_batch(
                batch,
                start,
                batch.attributes & _WHEN_REBUILT | (_HORIZON if gets_horizon or has_horizon else 0),
                rebuilt.end - start - _HEADER_BYTES,
                rebuilt.base_timestamp,
                max_timestamp,
                verdict.kept,
            )
        marks._add(batch.last_offset, max_timestamp, end[0] - start)
        return True


cdef uint8_t* _write_batch(
    const Plain* batch,
    uint8_t* out,
    int attributes,
    Py_ssize_t records_bytes,
    int64_t base_timestamp,
    int64_t max_timestamp,
    int32_t count,
) noexcept nogil:
    """Write the header over a batch whose records lie behind it already; returns its end."""
    cdef Py_ssize_t size = _HEADER_BYTES + records_bytes
    memcpy(out, batch.at, _HEADER_BYTES)
    put_big_endian(out + AT_LENGTH, 4, size - 12)
    put_big_endian(out + AT_ATTRIBUTES, 2, attributes)
    put_big_endian(out + AT_BASE_TIMESTAMP, 8, base_timestamp)
    put_big_endian(out + AT_MAX_TIMESTAMP, 8, max_timestamp)
    put_big_endian(out + AT_COUNT, 4, count)
    put_big_endian(out + AT_CRC, 4, crc32c_of(out + AT_ATTRIBUTES, size - AT_ATTRIBUTES))
    return out + size
