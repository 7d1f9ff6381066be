# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled loops over records. `_kernel_py` says the same in Python: one API, one behaviour.

Every length and varint that comes from outside is checked against the bytes that remain before it is used;
the loops run without the GIL. Buffers are taken raw (any format), and must not change meanwhile.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from penstock.protocol._compaction_py import KEPT_IN_EMPTY, KEPT_WHEN_REBUILT, FilteredRun, Run
from penstock.protocol.batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    CURRENT_MAGIC,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    MalformedRecords,
)

IMPLEMENTATION = "compiled"

cdef Py_ssize_t _HEADER_BYTES = HEADER_SIZE
cdef int64_t _MAX_COLUMN_BYTES = 0x7FFFFFFF

# What a loop without the GIL reports; the texts are the errors'.
cdef enum Fault:
    OK = 0
    ENDS_EARLY
    VARINT_TOO_LONG
    BAD_LENGTH
    BAD_OFFSET_DELTA
    BAD_HEADER_COUNT
    NO_HEADER_KEY
    WRONG_RECORD_LENGTH
    BYTES_LEFT
    BAD_COLUMN
    BAD_HEADER_COLUMN

_FAULTS = {
    ENDS_EARLY: "bytes end early",
    VARINT_TOO_LONG: "varint longer than its type",
    BAD_LENGTH: "more data stated than bytes remain",
    BAD_OFFSET_DELTA: "offset delta outside the batch",
    BAD_HEADER_COUNT: "more headers stated than bytes remain",
    NO_HEADER_KEY: "header without key",
    WRONG_RECORD_LENGTH: "record ends off the length it states",
    BYTES_LEFT: "bytes follow the last record",
    BAD_COLUMN: "column offsets lead outside its data",
    BAD_HEADER_COLUMN: "header without key, or list offsets outside the headers",
}


cdef class _View:
    """A contiguous buffer of any format as plain bytes, held for as long as this lives."""

    cdef Py_buffer buffer
    cdef bint held
    cdef const uint8_t* at
    cdef Py_ssize_t size

    def __cinit__(self, source):
        PyObject_GetBuffer(source, &self.buffer, PyBUF_SIMPLE)
        self.held = True
        self.at = <const uint8_t*>self.buffer.buf
        self.size = self.buffer.len

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)


# --- varints ------------------------------------------------------------------------------------------------


cdef inline Fault _read_varint(
    const uint8_t* buf, Py_ssize_t* position, Py_ssize_t end, int32_t* out
) noexcept nogil:
    cdef Py_ssize_t at = position[0]
    cdef uint32_t raw, byte
    cdef int shift = 7
    if at >= end:
        return ENDS_EARLY
    raw = buf[at]
    at += 1
    if raw > 0x7F:
        raw &= 0x7F
        while True:
            if at >= end:
                return ENDS_EARLY
            byte = buf[at]
            at += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                return VARINT_TOO_LONG
    position[0] = at
    out[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
    return OK


cdef inline Fault _read_varlong(
    const uint8_t* buf, Py_ssize_t* position, Py_ssize_t end, int64_t* out
) noexcept nogil:
    cdef Py_ssize_t at = position[0]
    cdef uint64_t raw = 0, byte
    cdef int shift = 0
    while True:
        if at >= end:
            return ENDS_EARLY
        byte = buf[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            return VARINT_TOO_LONG
    position[0] = at
    out[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    return OK


cdef inline uint64_t _zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ (0 - (<uint64_t>value >> 63))


cdef inline int _varint_bytes(int64_t value) noexcept nogil:
    cdef uint64_t raw = _zigzag(value)
    cdef int size = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


cdef inline uint8_t* _write_varint(uint8_t* out, int64_t value) noexcept nogil:
    cdef uint64_t raw = _zigzag(value)
    while raw > 0x7F:
        out[0] = <uint8_t>((raw & 0x7F) | 0x80)
        out += 1
        raw >>= 7
    out[0] = <uint8_t>raw
    return out + 1


# --- decode: batches → columns ------------------------------------------------------------------------------


cdef void _reserve(bytearray buffer, int64_t needed) except *:
    """Room for `needed` bytes, growing by half again so that many small batches cost no quadratic copy."""
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(buffer)
    if needed > size:
        PyByteArray_Resize(buffer, max(<Py_ssize_t>needed, size + (size >> 1)))


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
        _reserve(self.validity, (rows_after + 7) // 8)
        _reserve(self.offsets, 4 * (rows_after + 1))
        _reserve(self.data, self.sink.bytes + data_bytes)
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


cdef inline Fault _read_bytes(
    const uint8_t* buf, Py_ssize_t* position, Py_ssize_t end, const uint8_t** data, int32_t* size
) noexcept nogil:
    cdef Fault fault = _read_varint(buf, position, end, size)
    if fault != OK:
        return fault
    data[0] = buf + position[0]
    if size[0] >= 0:
        if size[0] > end - position[0]:
            return BAD_LENGTH
        position[0] += size[0]
    return OK


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


cdef class ColumnBuilder:
    """Columns under construction; its twin `_kernel_py.ColumnBuilder` says what each method means."""

    cdef bytearray offsets, timestamps, timestamp_types, list_offsets
    cdef _BinarySink keys, values, header_keys, header_values
    cdef Rows at
    cdef int64_t row_count
    cdef bint include_headers
    cdef public bint non_ascii_header_keys

    def __init__(self, bint include_headers=False):
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
        self.non_ascii_header_keys = False

    @property
    def rows(self):
        return self.row_count

    cdef void _reserve_rows(self, int64_t rows, int64_t data_bytes, int64_t headers) except *:
        cdef int64_t after = self.row_count + rows
        _reserve(self.offsets, 8 * after)
        _reserve(self.timestamps, 8 * after)
        _reserve(self.timestamp_types, 4 * after)
        self.keys.reserve(rows, data_bytes)
        self.values.reserve(rows, data_bytes)
        if self.include_headers:
            _reserve(self.list_offsets, 4 * (after + 1))
            self.header_keys.reserve(headers, data_bytes)
            self.header_values.reserve(headers, data_bytes)
        self.at.offsets = <int64_t*>PyByteArray_AS_STRING(self.offsets)
        self.at.timestamps = <int64_t*>PyByteArray_AS_STRING(self.timestamps)
        self.at.timestamp_types = <int32_t*>PyByteArray_AS_STRING(self.timestamp_types)
        self.at.lists = <int32_t*>PyByteArray_AS_STRING(self.list_offsets)

    def append_payload(self, payload, header, int64_t start_offset, int64_t end_offset):
        cdef _View view = _View(payload)
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
            self._fail(BAD_LENGTH, 0, header)
        self._reserve_rows(place.count, view.size, view.size // 2)
        with nogil:
            fault = self._append_records(view.at, view.size, &place, timestamp_type, &number)
        if fault != OK:
            self._fail(fault, number, header)

    cdef _fail(self, Fault fault, int32_t number, header):
        raise MalformedRecords(
            f"record {number} of {header.count} after base offset {header.base_offset}: {_FAULTS[fault]}"
        )

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
            fault = _read_varint(buf, &position, size, &length)
            if fault != OK:
                return fault
            if length < 0 or length > size - position:
                return BAD_LENGTH
            end = position + length
            position += 1  # the unused attributes
            fault = _read_varlong(buf, &position, end, &timestamp_delta)
            if fault == OK:
                fault = _read_varint(buf, &position, end, &offset_delta)
            if fault != OK:
                return fault
            if offset_delta < 0 or offset_delta > place.last_offset_delta:
                return BAD_OFFSET_DELTA
            fault = _read_bytes(buf, &position, end, &key, &key_size)
            if fault == OK:
                fault = _read_bytes(buf, &position, end, &value, &value_size)
            if fault == OK:
                fault = _read_varint(buf, &position, end, &header_count)
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
            _put(&keys, key, key_size)
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
        _put_object(&self.keys.sink, key)
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
            self.keys.finish(), self.values.finish(), headers,
        )


cdef _put_object(Sink* sink, data):
    cdef _View view
    if data is None:
        _put(sink, NULL, -1)
    else:
        view = _View(data)
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
        fault = _read_bytes(buf, position, end, &key, &key_size)
        if fault == OK and key_size < 0:
            return NO_HEADER_KEY
        if fault == OK:
            fault = _read_bytes(buf, position, end, &value, &value_size)
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


# --- encode: columns → batches ------------------------------------------------------------------------------


cdef struct Source:
    # One binary column to read: Arrow's buffers, and the array's own offset into them.
    bint present
    const uint8_t* validity
    const uint8_t* offsets
    const uint8_t* data
    int64_t data_bytes
    int64_t first
    int64_t rows


cdef class _BinarySource:
    cdef _View validity, offsets, data
    cdef Source source

    def __cinit__(self, column):
        self.source.present = column is not None
        self.source.rows = 0
        if column is None:
            return
        self.offsets = _View(column.offsets)
        self.data = _View(column.data)
        self.source.first = column.array_offset
        self.source.rows = self.offsets.size // 4 - 1 - self.source.first
        self.source.offsets = self.offsets.at
        self.source.data = self.data.at
        self.source.data_bytes = self.data.size
        self.source.validity = NULL
        if column.validity is not None:
            self.validity = _View(column.validity)
            self.source.validity = self.validity.at
            self.source.rows = min(self.source.rows, 8 * self.validity.size - self.source.first)
        if self.source.first < 0:
            self.source.rows = 0


cdef inline bint _is_valid(const uint8_t* validity, int64_t index) noexcept nogil:
    return validity == NULL or (validity[index >> 3] >> (index & 7)) & 1


cdef inline int32_t _int32_at(const uint8_t* buffer, int64_t index) noexcept nogil:
    cdef int32_t value
    memcpy(&value, buffer + 4 * index, 4)
    return value


cdef inline int64_t _int64_at(const uint8_t* buffer, int64_t index) noexcept nogil:
    cdef int64_t value
    memcpy(&value, buffer + 8 * index, 8)
    return value


cdef inline Fault _cell(
    const Source* source, int64_t row, const uint8_t** data, int32_t* size
) noexcept nogil:
    """The bytes of one row; size -1 is null, as is every row of an absent column."""
    cdef int32_t start, stop
    size[0] = -1
    if not source.present:
        return OK
    if row < 0 or row >= source.rows:
        return BAD_COLUMN
    row += source.first
    if not _is_valid(source.validity, row):
        return OK
    start = _int32_at(source.offsets, row)
    stop = _int32_at(source.offsets, row + 1)
    if start < 0 or stop < start or stop > source.data_bytes:
        return BAD_COLUMN
    data[0] = source.data + start
    size[0] = stop - start
    return OK


cdef struct ListSource:
    bint present
    const uint8_t* validity
    const uint8_t* offsets
    int64_t first
    int64_t rows


cdef inline Fault _list(const ListSource* lists, int64_t row, int32_t* start, int32_t* stop) noexcept nogil:
    start[0] = stop[0] = 0
    if not lists.present:
        return OK
    if row < 0 or row >= lists.rows:
        return BAD_HEADER_COLUMN
    row += lists.first
    if not _is_valid(lists.validity, row):
        return OK
    start[0] = _int32_at(lists.offsets, row)
    stop[0] = _int32_at(lists.offsets, row + 1)
    if start[0] < 0 or stop[0] < start[0]:
        return BAD_HEADER_COLUMN
    return OK


cdef class RowEncoder:
    """Rows of Arrow columns → records; see `_kernel_py.RowEncoder`, its twin."""

    cdef _BinarySource keys, values, header_keys, header_values
    cdef _View list_offsets, list_validity, timestamps, timestamp_validity, indices
    cdef ListSource lists
    cdef int64_t timestamp_first, timestamp_rows, default_timestamp, index_count
    cdef int64_t first_row

    def __init__(self, columns, indices, int64_t first_row, int64_t default_timestamp):
        self.keys = _BinarySource(columns.key)
        self.values = _BinarySource(columns.value)
        self.lists.present = False
        headers = columns.headers
        self.header_keys = _BinarySource(headers.keys if headers is not None else None)
        self.header_values = _BinarySource(headers.values if headers is not None else None)
        if headers is not None:
            self._take_lists(headers)
        self.timestamps = self.timestamp_validity = self.indices = None
        if columns.timestamp is not None:
            self._take_timestamps(columns.timestamp)
        self.default_timestamp = default_timestamp
        self.first_row = first_row
        self.index_count = -1
        if indices is not None:
            self.indices = _View(indices)
            self.index_count = self.indices.size // 8

    cdef _take_lists(self, headers):
        self.list_offsets = _View(headers.offsets)
        self.lists.present = True
        self.lists.offsets = self.list_offsets.at
        self.lists.first = headers.array_offset
        self.lists.rows = self.list_offsets.size // 4 - 1 - self.lists.first
        self.lists.validity = NULL
        if headers.validity is not None:
            self.list_validity = _View(headers.validity)
            self.lists.validity = self.list_validity.at
            self.lists.rows = min(self.lists.rows, 8 * self.list_validity.size - self.lists.first)
        if self.lists.first < 0:
            self.lists.rows = 0

    cdef _take_timestamps(self, timestamp):
        self.timestamps = _View(timestamp.data)
        self.timestamp_first = timestamp.array_offset
        self.timestamp_rows = self.timestamps.size // 8 - self.timestamp_first
        if timestamp.validity is not None:
            self.timestamp_validity = _View(timestamp.validity)
            self.timestamp_rows = min(
                self.timestamp_rows, 8 * self.timestamp_validity.size - self.timestamp_first
            )
        if self.timestamp_first < 0:
            self.timestamp_rows = 0

    cdef Fault _row(self, int64_t index, int64_t* row) noexcept nogil:
        if self.index_count < 0:
            row[0] = self.first_row + index
            return OK
        if index < 0 or index >= self.index_count:
            return BAD_COLUMN
        row[0] = _int64_at(self.indices.at, index)
        return OK

    cdef Fault _timestamp(self, int64_t row, int64_t* timestamp) noexcept nogil:
        timestamp[0] = self.default_timestamp
        if self.timestamps is None:
            return OK
        if row < 0 or row >= self.timestamp_rows:
            return BAD_COLUMN
        row += self.timestamp_first
        if self.timestamp_validity is None or _is_valid(self.timestamp_validity.at, row):
            timestamp[0] = _int64_at(self.timestamps.at, row)
        return OK

    cdef Fault _size(
        self, int64_t row, int64_t timestamp_delta, int32_t offset_delta, int64_t* size
    ) noexcept nogil:
        """Bytes of the record's body; checks all that `_write` then relies on."""
        cdef const uint8_t* data = NULL
        cdef int32_t key_size, value_size, start, stop, entry
        cdef Fault fault = _cell(&self.keys.source, row, &data, &key_size)
        if fault == OK:
            fault = _cell(&self.values.source, row, &data, &value_size)
        if fault == OK:
            fault = _list(&self.lists, row, &start, &stop)
        if fault != OK:
            return fault
        size[0] = 1 + _varint_bytes(timestamp_delta) + _varint_bytes(offset_delta)
        size[0] += _varint_bytes(key_size) + max(key_size, 0) + _varint_bytes(value_size) + max(value_size, 0)
        size[0] += _varint_bytes(stop - start)
        for entry in range(start, stop):
            fault = _cell(&self.header_keys.source, entry, &data, &key_size)
            if fault == OK:
                fault = _cell(&self.header_values.source, entry, &data, &value_size)
            if fault != OK or key_size < 0:
                return BAD_HEADER_COLUMN
            size[0] += _varint_bytes(key_size) + key_size + _varint_bytes(value_size) + max(value_size, 0)
        return OK

    cdef uint8_t* _write(
        self, uint8_t* out, int64_t row, int64_t size, int64_t timestamp_delta, int32_t offset_delta
    ) noexcept nogil:
        cdef int32_t start, stop, entry
        out = _write_varint(out, size)
        out[0] = 0
        out = _write_varint(out + 1, timestamp_delta)
        out = _write_varint(out, offset_delta)
        out = _write_cell(out, &self.keys.source, row)
        out = _write_cell(out, &self.values.source, row)
        _list(&self.lists, row, &start, &stop)
        out = _write_varint(out, stop - start)
        for entry in range(start, stop):
            out = _write_cell(out, &self.header_keys.source, entry)
            out = _write_cell(out, &self.header_values.source, entry)
        return out

    def encode(self, int64_t index, int64_t stop, int64_t max_bytes):
        cdef bytearray out = bytearray()
        cdef uint8_t* bytes_out
        cdef int64_t capacity = max(max_bytes, _HEADER_BYTES)
        cdef int64_t used = _HEADER_BYTES, position = index, needed = 0
        cdef int64_t base_timestamp = 0, max_timestamp = 0
        cdef int32_t count = 0
        cdef Fault fault
        if index < stop:
            # A record larger than the limit goes alone, in a batch of its own size.
            fault = self._first_size(index, &needed, &base_timestamp)
            if fault != OK:
                raise ValueError(f"row {index}: {_FAULTS[fault]}")
            if needed + _HEADER_BYTES > _MAX_COLUMN_BYTES:
                raise ValueError(f"row {index}: a record of {needed} bytes fits no batch")
            capacity = max(capacity, _HEADER_BYTES + needed)
        PyByteArray_Resize(out, capacity)
        bytes_out = <uint8_t*>PyByteArray_AS_STRING(out)
        max_timestamp = base_timestamp
        with nogil:
            fault = self._fill(
                bytes_out, capacity, &position, stop, base_timestamp,
                &used, &count, &max_timestamp,
            )
        if fault != OK:
            raise ValueError(f"row {position}: {_FAULTS[fault]}")
        PyByteArray_Resize(out, used)
        return out, position, count, base_timestamp, max_timestamp

    cdef Fault _first_size(self, int64_t index, int64_t* needed, int64_t* timestamp) noexcept nogil:
        cdef int64_t row
        cdef Fault fault = self._row(index, &row)
        if fault == OK:
            fault = self._timestamp(row, timestamp)
        if fault == OK:
            fault = self._size(row, 0, 0, needed)
        needed[0] += _varint_bytes(needed[0])
        return fault

    cdef Fault _fill(
        self, uint8_t* out, int64_t capacity, int64_t* index, int64_t stop, int64_t base_timestamp,
        int64_t* used, int32_t* count, int64_t* max_timestamp,
    ) noexcept nogil:
        cdef int64_t row, timestamp, delta, size
        cdef Fault fault
        while index[0] < stop and count[0] < 0x7FFFFFFF:
            fault = self._row(index[0], &row)
            if fault == OK:
                fault = self._timestamp(row, &timestamp)
            if fault != OK:
                return fault
            delta = <int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp)
            fault = self._size(row, delta, count[0], &size)
            if fault != OK:
                return fault
            if used[0] + _varint_bytes(size) + size > capacity:
                break
            used[0] = self._write(out + used[0], row, size, delta, count[0]) - out
            if timestamp > max_timestamp[0]:
                max_timestamp[0] = timestamp
            count[0] += 1
            index[0] += 1
        return OK


cdef inline uint8_t* _write_cell(uint8_t* out, const Source* source, int64_t row) noexcept nogil:
    cdef const uint8_t* data = NULL
    cdef int32_t size
    _cell(source, row, &data, &size)
    out = _write_varint(out, size)
    if size > 0:
        memcpy(out, data, size)
        out += size
    return out


# --- partitions ---------------------------------------------------------------------------------------------


cdef inline uint32_t _murmur2(const uint8_t* data, int32_t size) noexcept nogil:
    cdef uint32_t m = 0x5BD1E995
    cdef uint32_t h = <uint32_t>0x9747B28C ^ <uint32_t>size
    cdef uint32_t k
    cdef int32_t i, tail = size & ~3
    for i in range(0, tail, 4):
        k = data[i] | (<uint32_t>data[i + 1] << 8)
        k |= (<uint32_t>data[i + 2] << 16) | (<uint32_t>data[i + 3] << 24)
        k *= m
        k ^= k >> 24
        h = h * m ^ k * m
    size &= 3
    if size == 3:
        h ^= <uint32_t>data[tail + 2] << 16
    if size >= 2:
        h ^= <uint32_t>data[tail + 1] << 8
    if size >= 1:
        h = (h ^ data[tail]) * m
    h = (h ^ (h >> 13)) * m
    return h ^ (h >> 15)


def partition_keys(column, int64_t start, int64_t stop, int32_t partitions):
    cdef _BinarySource keys = _BinarySource(column)
    cdef bytearray out = bytearray()
    cdef int32_t* ids
    cdef int64_t row
    cdef const uint8_t* data = NULL
    cdef int32_t size
    cdef Fault fault = OK
    if partitions <= 0:
        raise ValueError(f"{partitions} partitions")
    if stop < start:
        raise ValueError(f"rows {start} to {stop}")
    PyByteArray_Resize(out, 4 * (stop - start))
    ids = <int32_t*>PyByteArray_AS_STRING(out)
    with nogil:
        for row in range(start, stop):
            fault = _cell(&keys.source, row, &data, &size)
            if fault != OK:
                break
            ids[row - start] = -1
            if size >= 0:
                ids[row - start] = <int32_t>((_murmur2(data, size) & 0x7FFFFFFF) % <uint32_t>partitions)
    if fault != OK:
        raise ValueError(f"row {row}: {_FAULTS[fault]}")
    return out


def split_rows(partition_ids, int32_t partitions, int64_t first_row=0):
    cdef _View ids = _View(partition_ids)
    cdef int64_t rows = ids.size // 4
    cdef bytearray out = bytearray(), positions = bytearray(8 * (max(partitions, 0) + 1))
    cdef int64_t* at = <int64_t*>PyByteArray_AS_STRING(positions)
    cdef int64_t* indices
    cdef int64_t row
    cdef int32_t partition, bad = 0
    for row in range(rows):
        partition = _int32_at(ids.at, row)
        if partition < 0 or partition >= partitions:
            raise ValueError(f"row {row}: partition {partition} of {partitions}")
        at[partition + 1] += 1
    for partition in range(partitions):
        at[partition + 1] += at[partition]
    starts = [at[partition] for partition in range(partitions + 1)]
    PyByteArray_Resize(out, 8 * rows)
    indices = <int64_t*>PyByteArray_AS_STRING(out)
    with nogil:
        for row in range(rows):
            partition = _int32_at(ids.at, row)
            indices[at[partition]] = first_row + row
            at[partition] += 1
    return out, starts


# --- compaction ---------------------------------------------------------------------------------------------

cdef struct Slot:
    # The hash of a key, and its newest offset plus one: a slot of zeros is free.
    uint64_t low
    uint64_t high
    int64_t offset_after


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
    """The newest offset of each key in a table of fixed size; see `_kernel_py.OffsetMap`, its twin."""

    cdef Slot* slots
    cdef uint64_t slot_count
    cdef int64_t used
    cdef uint64_t[2] secret
    cdef readonly int64_t capacity
    cdef public int64_t latest_offset

    def __cinit__(self, int64_t slots, int64_t capacity, secret):
        cdef _View key = _View(secret)
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

    cdef inline int64_t _get(self, const uint8_t* key, Py_ssize_t size) noexcept nogil:
        cdef uint64_t low, high
        return self._slot(key, size, &low, &high).offset_after - 1

    cdef inline bint _put(self, const uint8_t* key, Py_ssize_t size, int64_t offset) noexcept nogil:
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
        cdef _View view = _View(key)
        return self._get(view.at, view.size)

    def put(self, key, int64_t offset):
        cdef _View view = _View(key)
        return self._put(view.at, view.size, offset)


cdef struct Compacted:
    # The parts of one record, as positions in its payload; a negative key size is a null key.
    int64_t timestamp_delta
    int32_t offset_delta
    Py_ssize_t rest
    const uint8_t* key
    int32_t key_size
    bint has_value
    Py_ssize_t end


cdef inline Fault _compacted(
    const uint8_t* buf, Py_ssize_t size, Py_ssize_t position, int32_t last_offset_delta, Compacted* record
) noexcept nogil:
    """Read the record at `position` as far as compaction needs it."""
    cdef int32_t length, value_size
    cdef Fault fault = _read_varint(buf, &position, size, &length)
    if fault != OK:
        return fault
    if length < 0 or length > size - position:
        return BAD_LENGTH
    record.end = position + length
    position += 1  # the unused attributes
    fault = _read_varlong(buf, &position, record.end, &record.timestamp_delta)
    record.rest = position
    if fault == OK:
        fault = _read_varint(buf, &position, record.end, &record.offset_delta)
    if fault != OK:
        return fault
    if record.offset_delta < 0 or record.offset_delta > last_offset_delta:
        return BAD_OFFSET_DELTA
    fault = _read_bytes(buf, &position, record.end, &record.key, &record.key_size)
    if fault == OK:
        fault = _read_varint(buf, &position, record.end, &value_size)
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


cdef Section _section(_View view, header) except *:
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


cdef _malformed(Fault fault, header, int32_t number):
    return MalformedRecords(
        f"record {number} of {header.count} after base offset {header.base_offset}: {_FAULTS[fault]}"
    )


cdef Fault _index(
    OffsetMap offsets, const Section* section, int64_t start_offset, bint* is_full, int32_t* number
) noexcept nogil:
    """Note the keys from `start_offset` on, until the map is full."""
    cdef Py_ssize_t position = 0
    cdef int64_t offset
    cdef Compacted record
    cdef Fault fault
    cdef int32_t i
    is_full[0] = False
    for i in range(section.count):
        number[0] = i
        fault = _compacted(section.at, section.size, position, section.last_offset_delta, &record)
        if fault != OK:
            return fault
        offset = section.base_offset + record.offset_delta
        if record.key_size >= 0 and offset >= start_offset:
            is_full[0] = not offsets._put(record.key, record.key_size, offset)
            if is_full[0]:
                return OK
        position = record.end
    return OK if position == section.size else BYTES_LEFT


def index_records(OffsetMap offsets, payload, header, int64_t start_offset):
    cdef _View view = _View(payload)
    cdef Section section = _section(view, header)
    cdef int32_t number = 0
    cdef bint is_full = False
    cdef Fault fault
    with nogil:
        fault = _index(offsets, &section, start_offset, &is_full, &number)
    if fault != OK:
        raise _malformed(fault, header, number)
    return not is_full


def count_keyless(payload, header):
    cdef _View view = _View(payload)
    cdef Section section = _section(view, header)
    cdef int32_t number = 0, keyless = 0
    cdef Py_ssize_t position = 0
    cdef Compacted record
    cdef Fault fault = OK
    with nogil:
        for number in range(section.count):
            fault = _compacted(section.at, section.size, position, section.last_offset_delta, &record)
            if fault != OK:
                break
            keyless += record.key_size < 0
            position = record.end
        if fault == OK and position != section.size:
            fault = BYTES_LEFT
    if fault != OK:
        raise _malformed(fault, header, number)
    return keyless


cdef struct Verdict:
    int32_t count
    int32_t kept
    int32_t keyless
    bint has_tombstone


cdef Fault _judge(
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
        fault = _compacted(section.at, section.size, position, section.last_offset_delta, &record)
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
    cdef _View view = _View(payload)
    cdef Section section = _section(view, header)
    cdef bytearray marks = bytearray()
    cdef uint8_t* at
    cdef Verdict verdict
    cdef int32_t number = 0
    cdef Fault fault
    PyByteArray_Resize(marks, section.count)
    at = <uint8_t*>PyByteArray_AS_STRING(marks)
    with nogil:
        fault = _judge(offsets, &section, keep_tombstones, at, &verdict, &number)
    if fault != OK:
        raise _malformed(fault, header, number)
    return marks, verdict.kept, bool(verdict.has_tombstone), verdict.keyless


cdef struct Rebuilt:
    uint8_t* end
    int64_t base_timestamp
    int64_t max_timestamp


# Of its records' bytes, what a section may become: each grows by nine of its timestamp and one of its length.
cdef inline Py_ssize_t _rebuilt_bytes_max(const Section* section) noexcept nogil:
    return section.size + 10 * <Py_ssize_t>section.count


cdef Fault _rebuild(
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
        fault = _compacted(section.at, section.size, position, section.last_offset_delta, &record)
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
        out = _write_varint(out, 1 + _varint_bytes(delta) + rest_size)
        out[0] = 0
        out = _write_varint(out + 1, delta)
        memcpy(out, section.at + record.rest, rest_size)
        out += rest_size
    rebuilt.end = out
    return OK if position == section.size else BYTES_LEFT


def rebuild_records(payload, header, keep, base_timestamp):
    cdef _View view = _View(payload), marks = _View(keep)
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
        fault = _rebuild(&section, marks.at, base_at, start, &rebuilt, &number)
    if fault != OK:
        raise _malformed(fault, header, number)
    PyByteArray_Resize(out, rebuilt.end - start)
    return out, rebuilt.base_timestamp, rebuilt.max_timestamp


# --- compaction: runs of batches ----------------------------------------------------------------------------

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    static uint32_t crc32c_tables[8][256];

    static void crc32c_prepare(void) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = byte;
            for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0);
            crc32c_tables[0][byte] = crc;
        }
        for (uint32_t byte = 0; byte < 256; byte++)
            for (int i = 1; i < 8; i++) {
                uint32_t crc = crc32c_tables[i - 1][byte];
                crc32c_tables[i][byte] = (crc >> 8) ^ crc32c_tables[0][crc & 0xFF];
            }
    }

    static uint32_t crc32c_by_tables(const uint8_t *data, size_t size) {
        uint32_t crc = 0xFFFFFFFFu;
        for (; size >= 8; size -= 8, data += 8) {
            crc ^= data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
            crc = crc32c_tables[7][crc & 0xFF] ^ crc32c_tables[6][crc >> 8 & 0xFF]
                ^ crc32c_tables[5][crc >> 16 & 0xFF] ^ crc32c_tables[4][crc >> 24]
                ^ crc32c_tables[3][data[4]] ^ crc32c_tables[2][data[5]]
                ^ crc32c_tables[1][data[6]] ^ crc32c_tables[0][data[7]];
        }
        for (; size; size--, data++) crc = (crc >> 8) ^ crc32c_tables[0][(crc ^ *data) & 0xFF];
        return ~crc;
    }

    #if defined(__GNUC__) && defined(__x86_64__)
    #define CRC32C_FUNCTION __attribute__((target("sse4.2"))) static
    #define crc32c_word(crc, word) ((uint32_t)__builtin_ia32_crc32di(crc, word))
    #define crc32c_byte(crc, byte) __builtin_ia32_crc32qi(crc, byte)
    #define crc32c_has_instruction() __builtin_cpu_supports("sse4.2")
    #elif defined(__GNUC__) && defined(__aarch64__) && (defined(__linux__) || defined(__APPLE__))
    #define CRC32C_FUNCTION static
    static inline uint32_t crc32c_word(uint32_t crc, uint64_t word) {
        __asm__(".arch_extension crc\\n\\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
        return crc;
    }
    static inline uint32_t crc32c_byte(uint32_t crc, uint8_t byte) {
        __asm__(".arch_extension crc\\n\\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)byte));
        return crc;
    }
    #ifdef __linux__
    #include <sys/auxv.h>
    #define crc32c_has_instruction() (getauxval(AT_HWCAP) >> 7 & 1) /* HWCAP_CRC32 */
    #else
    #define crc32c_has_instruction() 1
    #endif
    #endif

    typedef struct { const uint8_t *at; size_t size; uint32_t crc; } Crc32cRun;

    #ifdef CRC32C_FUNCTION
    CRC32C_FUNCTION uint32_t crc32c_by_instruction(uint32_t crc, const uint8_t *data, size_t size) {
        uint64_t word;
        for (; size >= 8; size -= 8, data += 8) {
            memcpy(&word, data, 8);
            crc = crc32c_word(crc, word);
        }
        for (; size; size--, data++) crc = crc32c_byte(crc, *data);
        return ~crc;
    }

    /* A processor begins a step every cycle, but each step of one checksum waits three for that before it. */
    CRC32C_FUNCTION void crc32c_abreast(Crc32cRun *runs) {
        uint32_t a = 0xFFFFFFFFu, b = a, c = a;
        uint64_t word;
        size_t at = 0, shortest = runs[0].size < runs[1].size ? runs[0].size : runs[1].size;
        if (runs[2].size < shortest) shortest = runs[2].size;
        for (; at + 8 <= shortest; at += 8) {
            memcpy(&word, runs[0].at + at, 8), a = crc32c_word(a, word);
            memcpy(&word, runs[1].at + at, 8), b = crc32c_word(b, word);
            memcpy(&word, runs[2].at + at, 8), c = crc32c_word(c, word);
        }
        runs[0].crc = crc32c_by_instruction(a, runs[0].at + at, runs[0].size - at);
        runs[1].crc = crc32c_by_instruction(b, runs[1].at + at, runs[1].size - at);
        runs[2].crc = crc32c_by_instruction(c, runs[2].at + at, runs[2].size - at);
    }

    static uint32_t crc32c_of(const uint8_t *data, size_t size) {
        return crc32c_has_instruction() ? crc32c_by_instruction(0xFFFFFFFFu, data, size)
                                        : crc32c_by_tables(data, size);
    }
    #else
    #define crc32c_of crc32c_by_tables
    #endif

    /* The checksums of three runs of bytes, of which some may be empty. */
    static void crc32c_of_three(Crc32cRun *runs, int portable) {
    #ifdef CRC32C_FUNCTION
        if (!portable && crc32c_has_instruction()) {
            crc32c_abreast(runs);
            return;
        }
    #endif
        for (int i = 0; i < 3; i++) runs[i].crc = crc32c_by_tables(runs[i].at, runs[i].size);
    }
    """
    ctypedef struct Crc32cRun:
        const uint8_t* at
        size_t size
        uint32_t crc

    void crc32c_prepare()
    uint32_t crc32c_by_tables(const uint8_t* data, size_t size) nogil
    uint32_t crc32c_of(const uint8_t* data, size_t size) nogil
    void crc32c_of_three(Crc32cRun* runs, bint portable) noexcept nogil


crc32c_prepare()


def checksums(data):
    """CRC-32C of `data` as this machine computes it, and as one without an instruction for it does."""
    cdef _View view = _View(data)
    return crc32c_of(view.at, view.size), crc32c_by_tables(view.at, view.size)


cdef int64_t _NO_TIMESTAMP = NO_TIMESTAMP
cdef int _MAGIC = CURRENT_MAGIC
cdef int _COMPRESSED = COMPRESSION_MASK
cdef int _TRANSACTIONAL = TRANSACTIONAL_MASK
cdef int _CONTROL = CONTROL_MASK
cdef int _APPEND_TIME = TIMESTAMP_TYPE_MASK
cdef int _HORIZON = DELETE_HORIZON_MASK
cdef int _IN_EMPTY = KEPT_IN_EMPTY
cdef int _WHEN_REBUILT = KEPT_WHEN_REBUILT

# where the fields lie in a header
cdef enum:
    _AT_LENGTH = 8
    _AT_MAGIC = 16
    _AT_CRC = 17
    _AT_ATTRIBUTES = 21
    _AT_LAST_OFFSET_DELTA = 23
    _AT_BASE_TIMESTAMP = 27
    _AT_MAX_TIMESTAMP = 35
    _AT_PRODUCER_ID = 43
    _AT_PRODUCER_EPOCH = 51
    _AT_COUNT = 57


cdef inline uint64_t _big_endian(const uint8_t* at, int size) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value = (value << 8) | at[i]
    return value


cdef inline void _put_big_endian(uint8_t* at, int size, uint64_t value) noexcept nogil:
    cdef int i
    for i in range(size):
        at[size - 1 - i] = <uint8_t>value
        value >>= 8


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
    length = <int32_t>_big_endian(at + _AT_LENGTH, 4)
    if at[_AT_MAGIC] != _MAGIC or length < _HEADER_BYTES - 12 or length > room - 12:
        return False
    found.at = at
    found.size = 12 + <Py_ssize_t>length
    found.attributes = <int>_big_endian(at + _AT_ATTRIBUTES, 2)
    found.producer_id = <int64_t>_big_endian(at + _AT_PRODUCER_ID, 8)
    found.producer_epoch = <int16_t>_big_endian(at + _AT_PRODUCER_EPOCH, 2)
    section.at = at + _HEADER_BYTES
    section.size = found.size - _HEADER_BYTES
    section.base_offset = <int64_t>_big_endian(at, 8)
    section.last_offset_delta = <int32_t>_big_endian(at + _AT_LAST_OFFSET_DELTA, 4)
    section.base_timestamp = <int64_t>_big_endian(at + _AT_BASE_TIMESTAMP, 8)
    section.max_timestamp = <int64_t>_big_endian(at + _AT_MAX_TIMESTAMP, 8)
    section.count = <int32_t>_big_endian(at + _AT_COUNT, 4)
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
    crc = crc32c_of(at + _AT_ATTRIBUTES, found.size - _AT_ATTRIBUTES)
    return crc == <uint32_t>_big_endian(at + _AT_CRC, 4)


cdef class _Run:
    """A run as it is read: from `position` to `stop`, its offsets from `lowest_offset` to `limit_offset`."""

    cdef _View window
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
        self.window = _View(window)
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
    if _compacted(section.at, section.size, 0, section.last_offset_delta, &record) != OK:
        return NO_MARKER
    if record.end != section.size or record.key_size < 4 or record.key[0] > 0x7F:
        return NO_MARKER
    kind = <int16_t>_big_endian(record.key + 2, 2)
    return <Marker>kind if kind == ABORT or kind == COMMIT else NO_MARKER


cdef int64_t _FREE = -0x8000000000000000


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
            elif _index(offsets, &found.section, start_offset, &is_full, &number) != OK or is_full:
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
        _reserve(self.entries, (self.count + more) * <Py_ssize_t>sizeof(Mark))
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
        _reserve(self.marks, room // 7 + 1)
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
            if _judge(self.offsets, &batch.section, keeps_tombstones, keep, verdict, &number) != OK:
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
            _rebuild(
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
    _put_big_endian(out + _AT_LENGTH, 4, size - 12)
    _put_big_endian(out + _AT_ATTRIBUTES, 2, attributes)
    _put_big_endian(out + _AT_BASE_TIMESTAMP, 8, base_timestamp)
    _put_big_endian(out + _AT_MAX_TIMESTAMP, 8, max_timestamp)
    _put_big_endian(out + _AT_COUNT, 4, count)
    _put_big_endian(out + _AT_CRC, 4, crc32c_of(out + _AT_ATTRIBUTES, size - _AT_ATTRIBUTES))
    return out + size


# --- checking: batches as a disk gave them ------------------------------------------------------------------


cdef struct SoundRun:
    Py_ssize_t size
    int64_t last_offset


cdef inline Py_ssize_t _whole_batch(
    const uint8_t* at, Py_ssize_t room, int64_t after_offset, int64_t* last_offset
) noexcept nogil:
    """The size of a batch of at most `room` bytes that ends above `after_offset`; 0 where there is none."""
    cdef Py_ssize_t size
    if room < _HEADER_BYTES or at[_AT_MAGIC] != _MAGIC:
        return 0
    size = 12 + <Py_ssize_t><int32_t>_big_endian(at + _AT_LENGTH, 4)
    if size < _HEADER_BYTES or size > room:
        return 0
    last_offset[0] = <int64_t>(
        _big_endian(at, 8) + <uint64_t><int64_t><int32_t>_big_endian(at + _AT_LAST_OFFSET_DELTA, 4)
    )
    return size if last_offset[0] > after_offset else 0


cdef SoundRun _sound_run(
    const uint8_t* buf, Py_ssize_t size, int64_t after_offset, bint portable
) noexcept nogil:
    cdef Crc32cRun runs[3]
    cdef int64_t last_offsets[3]
    cdef SoundRun sound
    cdef Py_ssize_t at, batch_size
    cdef int count, i
    sound.size = 0
    sound.last_offset = after_offset
    while True:
        at = sound.size
        count = 0
        while count < 3:
            batch_size = _whole_batch(buf + at, size - at, after_offset, &last_offsets[count])
            if batch_size == 0:
                break
            runs[count].at = buf + at + _AT_ATTRIBUTES
            runs[count].size = batch_size - _AT_ATTRIBUTES
            after_offset = last_offsets[count]
            at += batch_size
            count += 1
        for i in range(count, 3):
            runs[i].at = buf
            runs[i].size = 0
        crc32c_of_three(runs, portable)
        for i in range(count):
            if runs[i].crc != <uint32_t>_big_endian(runs[i].at - (_AT_ATTRIBUTES - _AT_CRC), 4):
                return sound
            sound.size += _AT_ATTRIBUTES + runs[i].size
            sound.last_offset = last_offsets[i]
        if count < 3:
            return sound


def check_batches(data, int64_t after_offset, bint portable=False):
    cdef _View view = _View(data)
    cdef SoundRun sound
    with nogil:
        sound = _sound_run(view.at, view.size, after_offset, portable)
    return sound.size, sound.last_offset
