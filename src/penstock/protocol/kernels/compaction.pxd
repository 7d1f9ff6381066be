"""What `compaction_runs` takes from `compaction`: the map, and its steps over the records of one batch."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from penstock.protocol.kernels.raw_bytes cimport (
    BAD_LENGTH,
    BAD_OFFSET_DELTA,
    OK,
    Fault,
    read_bytes,
    read_varint,
    read_varlong,
)


cdef struct Slot:
    # The hash of a key, and its newest offset plus one: a slot of zeros is free.
    uint64_t low
    uint64_t high
    int64_t offset_after


@cython.final
cdef class OffsetMap:
    cdef Slot* slots
    cdef uint64_t slot_count
    cdef int64_t used
    cdef uint64_t[2] secret
    cdef readonly int64_t capacity
    cdef public int64_t latest_offset

    cdef Slot* _slot(self, const uint8_t* key, Py_ssize_t size, uint64_t* low, uint64_t* high) noexcept nogil
    cdef int64_t _get(self, const uint8_t* key, Py_ssize_t size) noexcept nogil
    cdef bint _put(self, const uint8_t* key, Py_ssize_t size, int64_t offset) noexcept nogil


cdef struct Compacted:
    # The parts of one record, as positions in its payload; a negative key size is a null key.
    int64_t timestamp_delta
    int32_t offset_delta
    Py_ssize_t rest
    const uint8_t* key
    int32_t key_size
    bint has_value
    Py_ssize_t end


cdef inline Fault read_compacted(
    const uint8_t* buf, Py_ssize_t size, Py_ssize_t position, int32_t last_offset_delta, Compacted* record
) noexcept nogil:
    """Read the record at `position` as far as compaction needs it."""
    cdef int32_t length, value_size
    cdef Fault fault = read_varint(buf, &position, size, &length)
    if fault != OK:
        return fault
    if length < 0 or length > size - position:
        return BAD_LENGTH
    record.end = position + length
    position += 1  # the unused attributes
    fault = read_varlong(buf, &position, record.end, &record.timestamp_delta)
    record.rest = position
    if fault == OK:
        fault = read_varint(buf, &position, record.end, &record.offset_delta)
    if fault != OK:
        return fault
    if record.offset_delta < 0 or record.offset_delta > last_offset_delta:
        return BAD_OFFSET_DELTA
    fault = read_bytes(buf, &position, record.end, &record.key, &record.key_size)
    if fault == OK:
        fault = read_varint(buf, &position, record.end, &value_size)
    if fault == OK and value_size > record.end - position:
        return BAD_LENGTH
    record.has_value = value_size >= 0
    return fault


cdef struct Section:
    # The records of a batch, decompressed, and what its header says of them.
    const uint8_t* at
    Py_ssize_t size
    int64_t base_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int32_t last_offset_delta
    int32_t count
    bint has_append_time


cdef struct Verdict:
    int32_t count
    int32_t kept
    int32_t keyless
    bint has_tombstone


cdef struct Rebuilt:
    uint8_t* end
    int64_t base_timestamp
    int64_t max_timestamp


cdef Fault index_section(
    OffsetMap offsets, const Section* section, int64_t start_offset, bint* is_full, int32_t* number
) noexcept nogil

cdef Fault judge_section(
    OffsetMap offsets,
    const Section* section,
    bint keep_tombstones,
    uint8_t* marks,
    Verdict* verdict,
    int32_t* number,
) noexcept nogil

cdef Fault rebuild_section(
    const Section* section,
    const uint8_t* marks,
    const int64_t* base_timestamp,
    uint8_t* out,
    Rebuilt* rebuilt,
    int32_t* number,
) noexcept nogil
