# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Columns → batches, and the partitions of their rows, compiled: see `column_encoder_py`, its twin."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from penstock.protocol.kernels.raw_bytes cimport (
    BAD_COLUMN,
    BAD_HEADER_COLUMN,
    OK,
    Fault,
    View,
    fault_text,
    varint_bytes,
    write_varint,
)

from penstock.protocol.batch import HEADER_SIZE

cdef Py_ssize_t _HEADER_BYTES = HEADER_SIZE
cdef int64_t _MAX_COLUMN_BYTES = 0x7FFFFFFF


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
    cdef View validity, offsets, data
    cdef Source source

    def __cinit__(self, column):
        self.source.present = column is not None
        self.source.rows = 0
        if column is None:
            return
        self.offsets = View(column.offsets)
        self.data = View(column.data)
        self.source.first = column.array_offset
        self.source.rows = self.offsets.size // 4 - 1 - self.source.first
        self.source.offsets = self.offsets.at
        self.source.data = self.data.at
        self.source.data_bytes = self.data.size
        self.source.validity = NULL
        if column.validity is not None:
            self.validity = View(column.validity)
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
    """Rows of Arrow columns → records; its twin says more."""

    cdef _BinarySource keys, values, header_keys, header_values
    cdef View list_offsets, list_validity, timestamps, timestamp_validity, indices
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
            self.indices = View(indices)
            self.index_count = self.indices.size // 8

    cdef _take_lists(self, headers):
        self.list_offsets = View(headers.offsets)
        self.lists.present = True
        self.lists.offsets = self.list_offsets.at
        self.lists.first = headers.array_offset
        self.lists.rows = self.list_offsets.size // 4 - 1 - self.lists.first
        self.lists.validity = NULL
        if headers.validity is not None:
            self.list_validity = View(headers.validity)
            self.lists.validity = self.list_validity.at
            self.lists.rows = min(self.lists.rows, 8 * self.list_validity.size - self.lists.first)
        if self.lists.first < 0:
            self.lists.rows = 0

    cdef _take_timestamps(self, timestamp):
        self.timestamps = View(timestamp.data)
        self.timestamp_first = timestamp.array_offset
        self.timestamp_rows = self.timestamps.size // 8 - self.timestamp_first
        if timestamp.validity is not None:
            self.timestamp_validity = View(timestamp.validity)
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
        size[0] = 1 + varint_bytes(timestamp_delta) + varint_bytes(offset_delta)
        size[0] += varint_bytes(key_size) + max(key_size, 0) + varint_bytes(value_size) + max(value_size, 0)
        size[0] += varint_bytes(stop - start)
        for entry in range(start, stop):
            fault = _cell(&self.header_keys.source, entry, &data, &key_size)
            if fault == OK:
                fault = _cell(&self.header_values.source, entry, &data, &value_size)
            if fault != OK or key_size < 0:
                return BAD_HEADER_COLUMN
            size[0] += varint_bytes(key_size) + key_size + varint_bytes(value_size) + max(value_size, 0)
        return OK

    cdef uint8_t* _write(
        self, uint8_t* out, int64_t row, int64_t size, int64_t timestamp_delta, int32_t offset_delta
    ) noexcept nogil:
        cdef int32_t start, stop, entry
        out = write_varint(out, size)
        out[0] = 0
        out = write_varint(out + 1, timestamp_delta)
        out = write_varint(out, offset_delta)
        out = _write_cell(out, &self.keys.source, row)
        out = _write_cell(out, &self.values.source, row)
        _list(&self.lists, row, &start, &stop)
        out = write_varint(out, stop - start)
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
                raise ValueError(f"row {index}: {fault_text(fault)}")
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
            raise ValueError(f"row {position}: {fault_text(fault)}")
        PyByteArray_Resize(out, used)
        return out, position, count, base_timestamp, max_timestamp

    cdef Fault _first_size(self, int64_t index, int64_t* needed, int64_t* timestamp) noexcept nogil:
        cdef int64_t row
        cdef Fault fault = self._row(index, &row)
        if fault == OK:
            fault = self._timestamp(row, timestamp)
        if fault == OK:
            fault = self._size(row, 0, 0, needed)
        needed[0] += varint_bytes(needed[0])
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
            if used[0] + varint_bytes(size) + size > capacity:
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
    out = write_varint(out, size)
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
        raise ValueError(f"row {row}: {fault_text(fault)}")
    return out


def split_rows(partition_ids, int32_t partitions, int64_t first_row=0):
    cdef View ids = View(partition_ids)
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
