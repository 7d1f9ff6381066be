# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What compaction asks of one batch, compiled: see `compaction_py`, its twin."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from penstock.protocol.kernels.raw_bytes cimport (
    BYTES_LEFT,
    OK,
    Fault,
    View,
    malformed_record,
    varint_bytes,
    write_varint,
)

from penstock.protocol.batch import LOG_APPEND_TIME, NO_TIMESTAMP, MalformedRecords

cdef int64_t _NO_TIMESTAMP = NO_TIMESTAMP

OFFSET_MAP_SLOT_BYTES = sizeof(Slot)


cdef inline uint64_t _rotated(uint64_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))


cdef inline void _sip_round(uint64_t* v) noexcept nogil:
    v[0] += v[1]
    v[2] += v[3]
    v[1] = _rotated(v[1], 13) ^ v[0]
    v[3] = _rotated(v[3], 16) ^ v[2]
    v[0] = _rotated(v[0], 32)
    v[2] += v[1]
    v[0] += v[3]
    v[1] = _rotated(v[1], 17) ^ v[2]
    v[3] = _rotated(v[3], 21) ^ v[0]
    v[2] = _rotated(v[2], 32)


cdef void _sip_hash(
    const uint64_t* secret, const uint8_t* data, Py_ssize_t size, uint64_t* low, uint64_t* high
) noexcept nogil:
    """SipHash-2-4 with 128 bits of output (Aumasson and Bernstein)."""
    cdef uint64_t v[4]
    cdef uint64_t word
    cdef Py_ssize_t i, whole = size & ~<Py_ssize_t>7
    v[0] = secret[0] ^ <uint64_t>0x736F6D6570736575
    v[1] = secret[1] ^ <uint64_t>0x646F72616E646F6D ^ 0xEE
    v[2] = secret[0] ^ <uint64_t>0x6C7967656E657261
    v[3] = secret[1] ^ <uint64_t>0x7465646279746573
    for i in range(0, whole, 8):
        memcpy(&word, data + i, 8)
        v[3] ^= word
        _sip_round(v)
        _sip_round(v)
        v[0] ^= word
    word = <uint64_t>size << 56
    for i in range(whole, size):
        word |= <uint64_t>data[i] << (8 * (i - whole))
    v[3] ^= word
    _sip_round(v)
    _sip_round(v)
    v[0] ^= word
    v[2] ^= 0xEE
    for i in range(4):
        _sip_round(v)
    low[0] = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    for i in range(4):
        _sip_round(v)
    high[0] = v[0] ^ v[1] ^ v[2] ^ v[3]


cdef class OffsetMap:
    """The newest offset of each key in a table of fixed size; its twin says more."""

    def __cinit__(self, int64_t slots, int64_t capacity, secret):
        cdef View key = View(secret)
        if not 0 < capacity <= slots:
            raise ValueError(f"an offset map of {slots} slots for {capacity} keys")
        if key.size != 16:
            raise ValueError(f"a secret of {key.size} bytes")
        self.slot_count = slots + 1  # one stays free, where probing ends
        # from the operating system in pages of zeros, so that what isn't used costs nothing
        self.slots = <Slot*>calloc(self.slot_count, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError(f"no memory for an offset map of {slots} slots")
        memcpy(self.secret, key.at, 16)
        self.capacity = capacity
        self.used = 0
        self.latest_offset = -1

    def __dealloc__(self):
        free(self.slots)

    def __len__(self):
        return self.used

    cdef Slot* _slot(self, const uint8_t* key, Py_ssize_t size, uint64_t* low, uint64_t* high) noexcept nogil:
        """The slot of a key, or the free one where it belongs."""
        cdef uint64_t at
        cdef Slot* slot
        _sip_hash(self.secret, key, size, low, high)
        at = low[0] % self.slot_count
        while True:
            slot = self.slots + at
            if slot.offset_after == 0 or (slot.low == low[0] and slot.high == high[0]):
                return slot
            at += 1
            if at == self.slot_count:
                at = 0

    cdef int64_t _get(self, const uint8_t* key, Py_ssize_t size) noexcept nogil:
        cdef uint64_t low, high
        return self._slot(key, size, &low, &high).offset_after - 1

    cdef bint _put(self, const uint8_t* key, Py_ssize_t size, int64_t offset) noexcept nogil:
        cdef uint64_t low, high
        cdef Slot* slot
        if self.used >= self.capacity:
            return False
        slot = self._slot(key, size, &low, &high)
        if slot.offset_after == 0:
            self.used += 1
            slot.low = low
            slot.high = high
        slot.offset_after = offset + 1
        self.latest_offset = offset
        return True

    def get(self, key):
        cdef View view = View(key)
        return self._get(view.at, view.size)

    def put(self, key, int64_t offset):
        cdef View view = View(key)
        return self._put(view.at, view.size, offset)


cdef Section _section(View view, header) except *:
    cdef Section section
    section.at = view.at
    section.size = view.size
    section.base_offset = header.base_offset
    section.base_timestamp = header.base_timestamp
    section.max_timestamp = header.max_timestamp
    section.last_offset_delta = header.last_offset_delta
    section.count = header.count
    section.has_append_time = header.timestamp_type == LOG_APPEND_TIME
    if section.count < 0 or section.count > section.size // 7:
        raise MalformedRecords(f"{section.count} records cannot fit into {section.size} bytes")
    return section


cdef Fault _walk(const Section* section, int32_t* number) noexcept nogil:
    """Read all records; `number` is the first with a fault."""
    cdef Py_ssize_t position = 0
    cdef Compacted record
    cdef Fault fault
    cdef int32_t i
    for i in range(section.count):
        number[0] = i
        fault = read_compacted(section.at, section.size, position, section.last_offset_delta, &record)
        if fault != OK:
            return fault
        position = record.end
    return OK if position == section.size else BYTES_LEFT


cdef Fault index_section(
    OffsetMap offsets, const Section* section, int64_t start_offset, bint* is_full, int32_t* number
) noexcept nogil:
    """Note the keys from `start_offset` on, until the map is full. On a fault the map is as it was."""
    cdef Py_ssize_t position = 0
    cdef int64_t offset
    cdef Compacted record
    cdef Fault fault = _walk(section, number)
    cdef int32_t i
    is_full[0] = False
    if fault != OK:
        return fault
    for i in range(section.count):
        read_compacted(section.at, section.size, position, section.last_offset_delta, &record)
        offset = section.base_offset + record.offset_delta
        if record.key_size >= 0 and offset >= start_offset:
            is_full[0] = not offsets._put(record.key, record.key_size, offset)
            if is_full[0]:
                return OK
        position = record.end
    return OK


def index_records(OffsetMap offsets, payload, header, int64_t start_offset):
    cdef View view = View(payload)
    cdef Section section = _section(view, header)
    cdef int32_t number = 0
    cdef bint is_full = False
    cdef Fault fault
    with nogil:
        fault = index_section(offsets, &section, start_offset, &is_full, &number)
    if fault != OK:
        raise malformed_record(fault, number, header)
    return not is_full


cdef Fault judge_section(
    OffsetMap offsets,
    const Section* section,
    bint keep_tombstones,
    uint8_t* marks,
    Verdict* verdict,
    int32_t* number,
) noexcept nogil:
    """Mark the records that stay, a byte each."""
    cdef Py_ssize_t position = 0
    cdef int64_t offset
    cdef Compacted record
    cdef Fault fault
    cdef int32_t i
    cdef bint keeps
    verdict.count = section.count
    verdict.kept = verdict.keyless = 0
    verdict.has_tombstone = False
    for i in range(section.count):
        number[0] = i
        fault = read_compacted(section.at, section.size, position, section.last_offset_delta, &record)
        if fault != OK:
            return fault
        offset = section.base_offset + record.offset_delta
        if offset > offsets.latest_offset:
            keeps = True
        elif record.key_size < 0:
            keeps = False
            verdict.keyless += 1
        else:
            keeps = (record.has_value or keep_tombstones) and offset >= offsets._get(
                record.key, record.key_size
            )
        marks[i] = keeps
        verdict.kept += keeps
        if keeps and not record.has_value:
            verdict.has_tombstone = True
        position = record.end
    return OK if position == section.size else BYTES_LEFT


def judge_records(OffsetMap offsets, payload, header, bint keep_tombstones):
    cdef View view = View(payload)
    cdef Section section = _section(view, header)
    cdef bytearray marks = bytearray()
    cdef uint8_t* at
    cdef Verdict verdict
    cdef int32_t number = 0
    cdef Fault fault
    PyByteArray_Resize(marks, section.count)
    at = <uint8_t*>PyByteArray_AS_STRING(marks)
    with nogil:
        fault = judge_section(offsets, &section, keep_tombstones, at, &verdict, &number)
    if fault != OK:
        raise malformed_record(fault, number, header)
    return marks, verdict.kept, bool(verdict.has_tombstone), verdict.keyless


# Of its records' bytes, what a section may become: each grows by nine of its timestamp and one of its length.
cdef inline Py_ssize_t _rebuilt_bytes_max(const Section* section) noexcept nogil:
    return section.size + 10 * <Py_ssize_t>section.count


cdef Fault rebuild_section(
    const Section* section,
    const uint8_t* marks,
    const int64_t* base_timestamp,
    uint8_t* out,
    Rebuilt* rebuilt,
    int32_t* number,
) noexcept nogil:
    """Write the marked records to `out`; `base_timestamp` is NULL where it is the first one's."""
    cdef Py_ssize_t position = 0, rest_size
    cdef bint has_base = base_timestamp != NULL
    cdef int64_t timestamp, delta
    cdef Compacted record
    cdef Fault fault
    cdef int32_t i
    rebuilt.base_timestamp = base_timestamp[0] if has_base else _NO_TIMESTAMP
    rebuilt.max_timestamp = _NO_TIMESTAMP
    for i in range(section.count):
        number[0] = i
        fault = read_compacted(section.at, section.size, position, section.last_offset_delta, &record)
        if fault != OK:
            return fault
        position = record.end
        if not marks[i]:
            continue
        timestamp = section.max_timestamp
        if not section.has_append_time:
            timestamp = <int64_t>(<uint64_t>section.base_timestamp + <uint64_t>record.timestamp_delta)
        if not has_base:
            rebuilt.base_timestamp = timestamp
            has_base = True
        if timestamp > rebuilt.max_timestamp:
            rebuilt.max_timestamp = timestamp
        delta = <int64_t>(<uint64_t>timestamp - <uint64_t>rebuilt.base_timestamp)
        rest_size = record.end - record.rest
        out = write_varint(out, 1 + varint_bytes(delta) + rest_size)
        out[0] = 0
        out = write_varint(out + 1, delta)
        memcpy(out, section.at + record.rest, rest_size)
        out += rest_size
    rebuilt.end = out
    return OK if position == section.size else BYTES_LEFT


def rebuild_records(payload, header, keep, base_timestamp):
    cdef View view = View(payload), marks = View(keep)
    cdef Section section = _section(view, header)
    cdef int64_t base = 0 if base_timestamp is None else base_timestamp
    cdef const int64_t* base_at = NULL if base_timestamp is None else &base
    cdef bytearray out = bytearray()
    cdef uint8_t* start
    cdef Rebuilt rebuilt
    cdef int32_t number = 0
    cdef Fault fault
    if marks.size != section.count:
        raise ValueError(f"{marks.size} marks for {section.count} records")
    PyByteArray_Resize(out, _rebuilt_bytes_max(&section))
    start = <uint8_t*>PyByteArray_AS_STRING(out)
    with nogil:
        fault = rebuild_section(&section, marks.at, base_at, start, &rebuilt, &number)
    if fault != OK:
        raise malformed_record(fault, number, header)
    PyByteArray_Resize(out, rebuilt.end - start)
    return out, rebuilt.base_timestamp, rebuilt.max_timestamp
