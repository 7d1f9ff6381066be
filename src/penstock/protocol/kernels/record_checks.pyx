# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Checking the records of a produced batch, compiled: see `record_checks_py`, its twin."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

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

from penstock.protocol.batch import NO_TIMESTAMP
from penstock.protocol.kernels.record_checks_py import NO_EARLIEST, CheckedRecords

cdef int64_t _NO_TIMESTAMP = NO_TIMESTAMP
cdef int64_t _NO_EARLIEST = NO_EARLIEST


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


def check_records(payload, header):
    cdef View view = View(payload)
    cdef int32_t number = 0, count = header.count
    cdef int64_t base_timestamp = header.base_timestamp
    cdef Py_ssize_t position = 0
    cdef Found found
    cdef Fault fault = OK
    found.earliest = _NO_EARLIEST
    found.latest = _NO_TIMESTAMP
    found.keyless = 0
    with nogil:
        for number in range(count):
            fault = _check_record(view.at, &position, view.size, number, base_timestamp, &found)
            if fault != OK:
                break
        if fault == OK and position != view.size:
            fault = BYTES_LEFT
    if fault != OK:
        raise malformed_record(fault, number, header)
    return CheckedRecords(found.earliest, found.latest, found.keyless)
