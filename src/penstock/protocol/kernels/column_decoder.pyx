# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Batches → columns, compiled: see `column_decoder_py`, its twin."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
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
    big_endian,
)
from penstock.protocol.kernels.crc32c cimport crc32c_of, crc32c_prepare
from penstock.protocol.kernels.raw_bytes cimport (
    BAD_HEADER_COUNT,
    BAD_LENGTH,
    BAD_OFFSET_DELTA,
    BYTES_LEFT,
    NO_HEADER_KEY,
    OK,
    WRONG_RECORD_LENGTH,
    Fault,
    View,
    malformed_record,
    read_bytes,
    read_varint,
    read_varlong,
    reserve,
)

from penstock.protocol.batch import LOG_APPEND_TIME

crc32c_prepare()

cdef int64_t _MAX_COLUMN_BYTES = 0x7FFFFFFF
cdef int64_t _MAX_OFFSET = 0x7FFFFFFFFFFFFFFF
cdef enum:
    HEADER_SIZE = 61
    LOG_OVERHEAD = 12
    SMALLEST_RECORD_BYTES = 7
    COMPRESSED_OR_CONTROL = 0x27
    APPEND_TIME = 0x08


cdef struct Sink:
    # One binary column under construction: Arrow's validity bitmap, offsets and data.
    uint8_t* validity
    int32_t* offsets
    uint8_t* data
    int64_t rows
    int64_t bytes
    int64_t nulls


cdef class _BinarySink:
    cdef bytearray validity, offsets, data
    cdef Sink sink

    def __cinit__(self):
        self.validity = bytearray()
        self.offsets = bytearray(4)
        self.data = bytearray()
        self.sink.rows = self.sink.bytes = self.sink.nulls = 0

    cdef void reserve(self, int64_t rows, int64_t data_bytes) except *:
        """Room for that many more rows and bytes; refreshes the pointers, which a resize moves."""
        cdef int64_t rows_after = self.sink.rows + rows
        if self.sink.bytes + data_bytes > _MAX_COLUMN_BYTES:
            raise OverflowError("a column would pass 2 GiB: decode fewer batches at a time")
        reserve(self.validity, (rows_after + 7) // 8)
        reserve(self.offsets, 4 * (rows_after + 1))
        reserve(self.data, self.sink.bytes + data_bytes)
        self.sink.validity = <uint8_t*>PyByteArray_AS_STRING(self.validity)
        self.sink.offsets = <int32_t*>PyByteArray_AS_STRING(self.offsets)
        self.sink.data = <uint8_t*>PyByteArray_AS_STRING(self.data)

    cdef finish(self):
        PyByteArray_Resize(self.validity, (self.sink.rows + 7) // 8)
        PyByteArray_Resize(self.offsets, 4 * (self.sink.rows + 1))
        PyByteArray_Resize(self.data, self.sink.bytes)
        return (self.validity, self.offsets, self.data, self.sink.nulls)


cdef inline void _put(Sink* sink, const uint8_t* data, int64_t size) noexcept nogil:
    """Append one value; a negative size is null. The caller has reserved the room."""
    cdef int64_t row = sink.rows
    cdef uint8_t bit = <uint8_t>(1 << (row & 7))
    if (row & 7) == 0:
        sink.validity[row >> 3] = 0
    if size >= 0:
        sink.validity[row >> 3] |= bit
        memcpy(sink.data + sink.bytes, data, size)
        sink.bytes += size
    else:
        sink.validity[row >> 3] &= ~bit
        sink.nulls += 1
    sink.rows = row + 1
    sink.offsets[row + 1] = <int32_t>sink.bytes


cdef struct Rows:
    # The columns of fixed width under construction.
    int64_t* offsets
    int64_t* timestamps
    int32_t* timestamp_types
    int32_t* lists


cdef struct BatchPlace:
    int32_t count
    int32_t last_offset_delta
    int64_t base_offset
    int64_t base_timestamp
    int64_t append_time
    bint has_append_time
    int64_t start_offset
    int64_t end_offset


cdef struct Limits:
    int64_t start_offset
    int64_t end_offset
    int64_t rows
    int64_t bytes


cdef struct Run:
    # Plain batches in a row: where they end, and what they need room for at most.
    Py_ssize_t end
    int64_t rows
    int64_t bytes


cdef inline bint _read_plain(const uint8_t* at, Py_ssize_t left, BatchPlace* place, Py_ssize_t* size) noexcept nogil:
    """The header of a whole, uncompressed batch of data; False where there is none, or one to be refused."""
    cdef int32_t attributes
    if left < HEADER_SIZE or at[AT_MAGIC] != 2:
        return False
    size[0] = LOG_OVERHEAD + <Py_ssize_t><int32_t>big_endian(at + AT_LENGTH, 4)
    attributes = <int32_t>big_endian(at + AT_ATTRIBUTES, 2)
    if size[0] < HEADER_SIZE or size[0] > left or attributes & COMPRESSED_OR_CONTROL:
        return False
    place.base_offset = <int64_t>big_endian(at, 8)
    place.last_offset_delta = <int32_t>big_endian(at + AT_LAST_OFFSET_DELTA, 4)
    place.base_timestamp = <int64_t>big_endian(at + AT_BASE_TIMESTAMP, 8)
    place.append_time = <int64_t>big_endian(at + AT_MAX_TIMESTAMP, 8)
    place.has_append_time = attributes & APPEND_TIME != 0
    place.count = <int32_t>big_endian(at + AT_COUNT, 4)
    return (
        place.last_offset_delta >= 0
        and 0 <= place.base_offset <= _MAX_OFFSET - place.last_offset_delta - 1
        and 0 <= place.count <= (size[0] - HEADER_SIZE) // SMALLEST_RECORD_BYTES
    )


cdef Run _plain_run(const uint8_t* buf, Py_ssize_t position, Py_ssize_t end, Limits* limits) noexcept nogil:
    """How far plain batches go on from `position`, within the limits."""
    cdef Run run
    cdef BatchPlace place
    cdef Py_ssize_t size = 0
    run.rows = run.bytes = 0
    while _read_plain(buf + position, end - position, &place, &size):
        if place.base_offset + place.last_offset_delta >= limits.start_offset:
            if place.base_offset >= limits.end_offset or run.rows + place.count > limits.rows:
                break
            if run.bytes + size - HEADER_SIZE > limits.bytes:
                break
            run.rows += place.count
            run.bytes += size - HEADER_SIZE
        position += size
    run.end = position
    return run


cdef class ColumnBuilder:
    """Columns under construction; its twin says what each method means."""

    cdef bytearray offsets, timestamps, timestamp_types, list_offsets
    cdef _BinarySink keys, values, header_keys, header_values
    cdef Rows at
    cdef int64_t row_count
    cdef bint include_headers, include_keys, include_values
    cdef public bint non_ascii_header_keys

    def __init__(self, bint include_headers=False, bint include_keys=True, bint include_values=True):
        self.offsets = bytearray()
        self.timestamps = bytearray()
        self.timestamp_types = bytearray()
        self.list_offsets = bytearray(4)
        self.keys = _BinarySink()
        self.values = _BinarySink()
        self.header_keys = _BinarySink()
        self.header_values = _BinarySink()
        self.row_count = 0
        self.include_headers = include_headers
        self.include_keys = include_keys
        self.include_values = include_values
        self.non_ascii_header_keys = False

    @property
    def rows(self):
        return self.row_count

    @property
    def data_bytes(self):
        return self.keys.sink.bytes + self.values.sink.bytes

    cdef void _reserve_rows(self, int64_t rows, int64_t data_bytes, int64_t headers) except *:
        cdef int64_t after = self.row_count + rows
        reserve(self.offsets, 8 * after)
        reserve(self.timestamps, 8 * after)
        reserve(self.timestamp_types, 4 * after)
        if self.include_keys:
            self.keys.reserve(rows, data_bytes)
        if self.include_values:
            self.values.reserve(rows, data_bytes)
        if self.include_headers:
            reserve(self.list_offsets, 4 * (after + 1))
            self.header_keys.reserve(headers, data_bytes)
            self.header_values.reserve(headers, data_bytes)
        self.at.offsets = <int64_t*>PyByteArray_AS_STRING(self.offsets)
        self.at.timestamps = <int64_t*>PyByteArray_AS_STRING(self.timestamps)
        self.at.timestamp_types = <int32_t*>PyByteArray_AS_STRING(self.timestamp_types)
        self.at.lists = <int32_t*>PyByteArray_AS_STRING(self.list_offsets)

    def append_payload(self, payload, header, int64_t start_offset, int64_t end_offset):
        cdef View view = View(payload)
        cdef BatchPlace place
        cdef int32_t number = 0
        cdef Fault fault
        cdef int32_t timestamp_type = header.timestamp_type
        place.count = header.count
        place.last_offset_delta = header.last_offset_delta
        place.base_offset = header.base_offset
        place.base_timestamp = header.base_timestamp
        place.append_time = header.max_timestamp
        place.has_append_time = timestamp_type == LOG_APPEND_TIME
        place.start_offset = start_offset
        place.end_offset = end_offset
        # No record is shorter than seven bytes, no header than two.
        if place.count < 0 or place.count > view.size // 7:
            raise malformed_record(BAD_LENGTH, 0, header)
        self._reserve_rows(place.count, view.size, view.size // 2)
        with nogil:
            fault = self._append_records(view.at, view.size, &place, timestamp_type, &number)
        if fault != OK:
            raise malformed_record(fault, number, header)

    def append_batches(
        self, buf, Py_ssize_t position, int64_t start_offset, int64_t end_offset, bint check_crc,
        int64_t max_rows, int64_t max_bytes,
    ):
        cdef View view = View(buf)
        cdef int64_t next_offset = start_offset
        cdef Limits limits
        cdef Run run
        limits.start_offset = start_offset
        limits.end_offset = end_offset
        limits.rows = max_rows - self.row_count
        limits.bytes = max_bytes - self.keys.sink.bytes - self.values.sink.bytes
        run = _plain_run(view.at, position, view.size, &limits)
        if run.end == position:
            return position, next_offset
        self._reserve_rows(run.rows, run.bytes, run.bytes // 2)
        with nogil:
            position = self._append_run(view.at, position, run.end, &limits, check_crc, &next_offset)
        return position, next_offset

    cdef Py_ssize_t _append_run(
        self, const uint8_t* buf, Py_ssize_t position, Py_ssize_t end, Limits* limits, bint check_crc,
        int64_t* next_offset,
    ) noexcept nogil:
        """Append batches up to `end`, or to the first with a fault; returns where that is."""
        cdef BatchPlace place
        cdef Py_ssize_t size = 0
        cdef int32_t number = 0
        cdef const uint8_t* at
        place.start_offset = limits.start_offset
        place.end_offset = limits.end_offset
        while position < end:
            at = buf + position
            _read_plain(at, end - position, &place, &size)
            if place.base_offset + place.last_offset_delta >= limits.start_offset:
                if check_crc and crc32c_of(at + AT_ATTRIBUTES, size - AT_ATTRIBUTES) != big_endian(at + AT_CRC, 4):
                    break
                if self._append_records(
                    at + HEADER_SIZE, size - HEADER_SIZE, &place, place.has_append_time, &number
                ) != OK:
                    break
                next_offset[0] = max(
                    next_offset[0], min(place.base_offset + place.last_offset_delta + 1, limits.end_offset)
                )
            position += size
        return position

    cdef Fault _append_records(
        self, const uint8_t* buf, Py_ssize_t size, BatchPlace* place, int32_t timestamp_type, int32_t* number
    ) noexcept nogil:
        """All records of a batch, or none: on a fault the columns are as they were."""
        cdef Sink keys = self.keys.sink, values = self.values.sink
        cdef Sink header_keys = self.header_keys.sink, header_values = self.header_values.sink
        cdef Rows at = self.at
        cdef int64_t row = self.row_count
        cdef int64_t offset, timestamp_delta
        cdef Py_ssize_t position = 0, end
        cdef int32_t length, offset_delta, key_size, value_size, header_count, i
        cdef const uint8_t* key
        cdef const uint8_t* value
        cdef bint wanted, non_ascii = False
        cdef Fault fault
        for i in range(place.count):
            number[0] = i
            fault = read_varint(buf, &position, size, &length)
            if fault != OK:
                return fault
            if length < 0 or length > size - position:
                return BAD_LENGTH
            end = position + length
            position += 1  # the unused attributes
            fault = read_varlong(buf, &position, end, &timestamp_delta)
            if fault == OK:
                fault = read_varint(buf, &position, end, &offset_delta)
            if fault != OK:
                return fault
            if offset_delta < 0 or offset_delta > place.last_offset_delta:
                return BAD_OFFSET_DELTA
            fault = read_bytes(buf, &position, end, &key, &key_size)
            if fault == OK:
                fault = read_bytes(buf, &position, end, &value, &value_size)
            if fault == OK:
                fault = read_varint(buf, &position, end, &header_count)
            if fault != OK:
                return fault
            if header_count < 0 or header_count > end - position:
                return BAD_HEADER_COUNT
            offset = place.base_offset + offset_delta
            wanted = place.start_offset <= offset < place.end_offset
            if header_count:
                fault = _append_headers(
                    buf, &position, end, header_count, wanted and self.include_headers,
                    &header_keys, &header_values, &non_ascii,
                )
                if fault != OK:
                    return fault
            if position != end:
                return WRONG_RECORD_LENGTH
            if not wanted:
                continue
            at.offsets[row] = offset
            if place.has_append_time:
                at.timestamps[row] = place.append_time
            else:
                at.timestamps[row] = <int64_t>(<uint64_t>place.base_timestamp + <uint64_t>timestamp_delta)
            at.timestamp_types[row] = timestamp_type
            if self.include_keys:
                _put(&keys, key, key_size)
            if self.include_values:
                _put(&values, value, value_size)
            row += 1
            if self.include_headers:
                at.lists[row] = <int32_t>header_keys.rows
        if position != size:
            return BYTES_LEFT
        self.keys.sink = keys
        self.values.sink = values
        self.header_keys.sink = header_keys
        self.header_values.sink = header_values
        self.non_ascii_header_keys = self.non_ascii_header_keys or non_ascii
        self.row_count = row
        return OK

    def append_row(self, int64_t offset, int64_t timestamp, int32_t timestamp_type, key, value, headers):
        cdef int64_t size = (len(key) if key is not None else 0) + (len(value) if value is not None else 0)
        cdef list encoded = [(name.encode(), content) for name, content in headers]
        cdef int64_t row
        for name, content in encoded:
            size += len(name) + (len(content) if content is not None else 0)
        self._reserve_rows(1, size, len(encoded))
        row = self.row_count
        self.at.offsets[row] = offset
        self.at.timestamps[row] = timestamp
        self.at.timestamp_types[row] = timestamp_type
        if self.include_keys:
            _put_object(&self.keys.sink, key)
        if self.include_values:
            _put_object(&self.values.sink, value)
        if self.include_headers:
            for name, content in encoded:
                _put_object(&self.header_keys.sink, name)
                _put_object(&self.header_values.sink, content)
            self.at.lists[row + 1] = <int32_t>self.header_keys.sink.rows
        self.row_count = row + 1

    def finish(self):
        PyByteArray_Resize(self.offsets, 8 * self.row_count)
        PyByteArray_Resize(self.timestamps, 8 * self.row_count)
        PyByteArray_Resize(self.timestamp_types, 4 * self.row_count)
        headers = None
        if self.include_headers:
            PyByteArray_Resize(self.list_offsets, 4 * (self.row_count + 1))
            headers = (self.list_offsets, self.header_keys.finish(), self.header_values.finish())
        return (
            self.offsets, self.timestamps, self.timestamp_types,
            self.keys.finish() if self.include_keys else None,
            self.values.finish() if self.include_values else None,
            headers,
        )


cdef _put_object(Sink* sink, data):
    cdef View view
    if data is None:
        _put(sink, NULL, -1)
    else:
        view = View(data)
        _put(sink, view.at, view.size)


cdef Fault _append_headers(
    const uint8_t* buf, Py_ssize_t* position, Py_ssize_t end, int32_t count, bint wanted,
    Sink* keys, Sink* values, bint* non_ascii,
) noexcept nogil:
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef int32_t key_size, value_size, i, j
    cdef Fault fault
    for i in range(count):
        fault = read_bytes(buf, position, end, &key, &key_size)
        if fault == OK and key_size < 0:
            return NO_HEADER_KEY
        if fault == OK:
            fault = read_bytes(buf, position, end, &value, &value_size)
        if fault != OK:
            return fault
        if wanted:
            _put(keys, key, key_size)
            _put(values, value, value_size)
            for j in range(key_size):
                if key[j] > 0x7F:
                    non_ascii[0] = True
                    break
    return OK
