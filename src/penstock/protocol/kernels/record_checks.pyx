# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Checking the records of a produced batch, compiled: see `record_checks_py`, its twin."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from penstock.protocol.kernels.batch_header cimport (
    AT_ATTRIBUTES,
    AT_BASE_SEQUENCE,
    AT_BASE_TIMESTAMP,
    AT_COUNT,
    AT_CRC,
    AT_LAST_OFFSET_DELTA,
    AT_LEADER_EPOCH,
    AT_LENGTH,
    AT_MAGIC,
    AT_MAX_TIMESTAMP,
    AT_PRODUCER_EPOCH,
    AT_PRODUCER_ID,
    big_endian,
)
from penstock.protocol.kernels.crc32c cimport crc32c_of, crc32c_prepare
from penstock.protocol.kernels.raw_bytes cimport (
    BAD_HEADER_COUNT,
    BAD_LENGTH,
    BYTES_LEFT,
    NO_HEADER_KEY,
    OFFSET_OUT_OF_ORDER,
    OK,
    WRONG_RECORD_LENGTH,
    Fault,
    View,
    malformed_record,
    read_bytes,
    read_varint,
    read_varlong,
)

from penstock.protocol.batch import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from penstock.protocol.kernels.record_checks_py import NO_EARLIEST, CheckedRecords

cdef int64_t _NO_TIMESTAMP = NO_TIMESTAMP
cdef int64_t _NO_EARLIEST = NO_EARLIEST
cdef Py_ssize_t _HEADER_BYTES = HEADER_SIZE
cdef Py_ssize_t _OVERHEAD_BYTES = LOG_OVERHEAD
cdef int _MAGIC = CURRENT_MAGIC
cdef int _TRANSACTIONAL = TRANSACTIONAL_MASK
cdef object _new_tuple = tuple.__new__

crc32c_prepare()


cdef struct Found:
    int64_t earliest
    int64_t latest
    int32_t keyless


cdef inline Fault _skip_headers(
    const uint8_t* buf, Py_ssize_t* position, Py_ssize_t end, int32_t count
) noexcept nogil:
    cdef const uint8_t* data
    cdef int32_t size, i
    cdef Fault fault
    if count < 0 or count > end - position[0]:
        return BAD_HEADER_COUNT
    for i in range(count):
        fault = read_bytes(buf, position, end, &data, &size)
        if fault != OK:
            return fault
        if size < 0:
            return NO_HEADER_KEY
        fault = read_bytes(buf, position, end, &data, &size)
        if fault != OK:
            return fault
    return OK


cdef inline Fault _check_record(
    const uint8_t* buf, Py_ssize_t* start, Py_ssize_t size, int32_t number, int64_t base_timestamp, Found* found
) noexcept nogil:
    cdef Py_ssize_t position = start[0], end
    cdef const uint8_t* data
    cdef int32_t length, offset_delta, key_size, value_size, headers
    cdef int64_t timestamp
    cdef Fault fault = read_varint(buf, &position, size, &length)
    if fault != OK:
        return fault
    if length < 0 or length > size - position:
        return BAD_LENGTH
    end = position + length
    position += 1  # the unused attributes
    fault = read_varlong(buf, &position, end, &timestamp)
    if fault == OK:
        fault = read_varint(buf, &position, end, &offset_delta)
    if fault != OK:
        return fault
    if offset_delta != number:
        return OFFSET_OUT_OF_ORDER
    fault = read_bytes(buf, &position, end, &data, &key_size)
    if fault == OK:
        fault = read_bytes(buf, &position, end, &data, &value_size)
    if fault == OK:
        fault = read_varint(buf, &position, end, &headers)
    if fault == OK and headers != 0:
        fault = _skip_headers(buf, &position, end, headers)
    if fault != OK:
        return fault
    if position != end:
        return WRONG_RECORD_LENGTH
    timestamp = <int64_t>(<uint64_t>timestamp + <uint64_t>base_timestamp)
    if timestamp != _NO_TIMESTAMP:
        found.earliest = min(found.earliest, timestamp)
        found.latest = max(found.latest, timestamp)
    found.keyless += key_size < 0
    start[0] = end
    return OK


cdef inline Fault _check_records(
    const uint8_t* buf, Py_ssize_t size, int32_t count, int64_t base_timestamp, Found* found, int32_t* number
) noexcept nogil:
    """Check all records; `number` becomes that of the record with a fault."""
    cdef Py_ssize_t position = 0
    cdef Fault fault
    found.earliest = _NO_EARLIEST
    found.latest = _NO_TIMESTAMP
    found.keyless = 0
    for number[0] in range(count):
        fault = _check_record(buf, &position, size, number[0], base_timestamp, found)
        if fault != OK:
            return fault
    return OK if position == size else BYTES_LEFT


def check_records(payload, header):
    cdef View view = View(payload)
    cdef int32_t number = 0, count = header.count
    cdef int64_t base_timestamp = header.base_timestamp
    cdef Found found
    cdef Fault fault
    with nogil:
        fault = _check_records(view.at, view.size, count, base_timestamp, &found, &number)
    if fault != OK:
        raise malformed_record(fault, number, header)
    return CheckedRecords(found.earliest, found.latest, found.keyless)


cdef struct Header:
    int64_t base_offset, base_timestamp, max_timestamp, producer_id
    int32_t length, leader_epoch, last_offset_delta, base_sequence, count
    int16_t attributes, producer_epoch
    uint32_t crc


cdef inline bint _is_plain_batch(const uint8_t* buf, Py_ssize_t size, Header* header) noexcept nogil:
    """Fill in `header`; whether the batch needs no other check."""
    cdef Found found
    cdef int32_t number
    if size < _HEADER_BYTES or buf[AT_MAGIC] != _MAGIC:
        return False
    header.attributes = <int16_t>big_endian(buf + AT_ATTRIBUTES, 2)
    header.length = <int32_t>big_endian(buf + AT_LENGTH, 4)
    header.base_offset = <int64_t>big_endian(buf, 8)
    header.last_offset_delta = <int32_t>big_endian(buf + AT_LAST_OFFSET_DELTA, 4)
    header.count = <int32_t>big_endian(buf + AT_COUNT, 4)
    if (
        header.attributes & ~_TRANSACTIONAL
        or header.length != size - _OVERHEAD_BYTES
        or header.base_offset != 0
        or header.count <= 0
        or header.last_offset_delta != header.count - 1
    ):
        return False
    header.producer_id = <int64_t>big_endian(buf + AT_PRODUCER_ID, 8)
    header.producer_epoch = <int16_t>big_endian(buf + AT_PRODUCER_EPOCH, 2)
    header.base_sequence = <int32_t>big_endian(buf + AT_BASE_SEQUENCE, 4)
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        return False
    header.crc = <uint32_t>big_endian(buf + AT_CRC, 4)
    if crc32c_of(buf + AT_ATTRIBUTES, size - AT_ATTRIBUTES) != header.crc:
        return False
    header.leader_epoch = <int32_t>big_endian(buf + AT_LEADER_EPOCH, 4)
    header.base_timestamp = <int64_t>big_endian(buf + AT_BASE_TIMESTAMP, 8)
    header.max_timestamp = <int64_t>big_endian(buf + AT_MAX_TIMESTAMP, 8)
    buf += _HEADER_BYTES
    size -= _HEADER_BYTES
    if _check_records(buf, size, header.count, header.base_timestamp, &found, &number) != OK:
        return False
    return found.latest == header.max_timestamp


def check_plain_batch(batch):
    cdef View view = View(batch)
    cdef Header header
    cdef bint is_plain
    with nogil:
        is_plain = _is_plain_batch(view.at, view.size, &header)
    if not is_plain:
        return None
    return _new_tuple(
        BatchHeader,
        (
            header.base_offset,
            header.length,
            header.leader_epoch,
            _MAGIC,
            header.crc,
            header.attributes,
            header.last_offset_delta,
            header.base_timestamp,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.count,
        ),
    )
