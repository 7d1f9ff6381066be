# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Changes from frames of the stream, and their JSON, compiled: see `changes_py`, its twin."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp

from penstock.connect.cdc.postgres.kernels.json_scalars cimport (
    Buffer,
    Piece,
    add,
    add_decimal,
    add_integer,
    add_number,
    add_piece,
    add_text,
    add_zoned,
    date,
    floor,
    room,
    timestamp,
)

from penstock.connect.cdc.postgres.pgoutput import Unchanged

cdef enum:
    MOST_COLUMNS = 1664  # PostgreSQL's own limit of a tuple
    FRAME_HEADER = 25

cdef enum Scalar:
    CALL = 0
    INTEGER
    BOOLEAN
    TEXT
    MICROS
    MILLIS
    DATE
    ZONED
    DECIMAL

cdef enum Slot:
    NOTHING = 0
    LSN
    COMMITTED
    XID
    COMMIT_MS
    COMMIT_US
    COMMIT_NS
    NOW_MS
    NOW_US
    NOW_NS


cdef struct Tuple:
    # The columns of one row: kind, and where the text is.
    int32_t count
    uint8_t kind[MOST_COLUMNS]
    int32_t start[MOST_COLUMNS]
    int32_t size[MOST_COLUMNS]


cdef inline uint32_t _uint32(const uint8_t* at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline uint64_t _uint64(const uint8_t* at) noexcept nogil:
    return (<uint64_t>_uint32(at) << 32) | _uint32(at + 4)


cdef int32_t _locate(const uint8_t* data, int64_t at, int64_t end, Tuple* row) noexcept nogil:
    """Find the columns of a tuple; the position after it, or -1 if it is malformed or has binary values."""
    cdef int32_t index, count
    cdef int64_t size
    if end - at < 2:
        return -1
    count = (data[at] << 8) | data[at + 1]
    if count > MOST_COLUMNS:
        return -1
    at += 2
    row.count = count
    for index in range(count):
        if at >= end:
            return -1
        row.kind[index] = data[at]
        row.start[index] = row.size[index] = 0
        if data[at] == c"t":
            if end - at < 5:
                return -1
            size = _uint32(data + at + 1)
            if size > end - at - 5:
                return -1
            row.start[index] = <int32_t>(at + 5)
            row.size[index] = <int32_t>size
            at += 5 + size
        elif data[at] == c"n" or data[at] == c"u":
            at += 1
        else:
            return -1
    return <int32_t>at


cdef inline bint _fits(const Tuple* row, const uint8_t* required, Py_ssize_t width) noexcept nogil:
    """Whether a row has the relation's columns, and no null where the schemas forbid it."""
    cdef int32_t index
    if row.count != width:
        return False
    for index in range(row.count):
        if required[index] and row.kind[index] == c"n":
            return False
    return True


cdef bint _is_text(const uint8_t* data, const Tuple* row):
    """Whether all texts of a row are UTF-8."""
    cdef int32_t index, at
    for index in range(row.count):
        for at in range(row.start[index], row.start[index] + row.size[index]):
            if data[at] >= 0x80:
                try:
                    PyUnicode_DecodeUTF8(<const char*>data + row.start[index], row.size[index], NULL)
                except UnicodeDecodeError:
                    return False
                break
    return True


cdef class Change:
    """One change of a row; its twin says more."""

    cdef readonly object plan, operation, place, snapshot
    cdef readonly bytes frame
    cdef readonly int64_t lsn, now_us
    cdef readonly int32_t new_at, old_at, records
    cdef readonly bint is_tombstone

    def __init__(
        self, plan, operation, bytes frame, int32_t new_at, int32_t old_at, int64_t lsn, place,
        int64_t now_us, int32_t records, is_tombstone=False, snapshot=None,
    ):
        self.plan = plan
        self.operation = operation
        self.frame = frame
        self.new_at = new_at
        self.old_at = old_at
        self.lsn = lsn
        self.place = place
        self.now_us = now_us
        self.records = records
        self.is_tombstone = is_tombstone
        self.snapshot = snapshot

    @property
    def new(self):
        return None if self.new_at < 0 else self.frame[self.new_at :]

    @property
    def old(self):
        if self.old_at < 0:
            return None
        return self.frame[self.old_at :] if self.new_at < 0 else self.frame[self.old_at : self.new_at - 1]


cdef Change _change(
    plan, operation, bytes frame, int64_t new_at, int64_t old_at, int64_t lsn, place, int64_t now_us,
    int32_t records, bint is_tombstone,
):
    cdef Change made = Change.__new__(Change)
    made.plan = plan
    made.operation = operation
    made.frame = frame
    made.new_at = <int32_t>new_at
    made.old_at = <int32_t>old_at
    made.lsn = lsn
    made.place = place
    made.now_us = now_us
    made.records = records
    made.is_tombstone = is_tombstone
    made.snapshot = None
    return made


def read_changes(
    list frames, Py_ssize_t at, dict plans, place, int64_t last_lsn, int32_t records, clock_us, make, list out
):
    cdef Py_ssize_t count = len(frames)
    cdef bytes frame
    cdef const uint8_t* data
    cdef const uint8_t* required
    cdef Py_ssize_t size, width
    cdef int64_t lsn, new_at, old_at, now_us
    cdef uint8_t kind
    cdef uint32_t relation = 0, known = 0
    cdef bint has_plan = False
    cdef Tuple new, old
    cdef object plan = None, operation = None, name = None, message_type = None
    cdef bytes mask = b""
    while at < count:
        frame = frames[at]
        data = <const uint8_t*>PyBytes_AS_STRING(frame)
        size = PyBytes_GET_SIZE(frame)
        if size < FRAME_HEADER + 6 or data[0] != c"w" or data[1] & 0x80:
            break
        kind = data[FRAME_HEADER]
        if kind != c"I" and kind != c"U" and kind != c"D":
            break
        relation = _uint32(data + FRAME_HEADER + 1)
        if not has_plan or relation != known:
            plan = plans.get(relation)
            if plan is None:
                break
            known, has_plan = relation, True
            mask = plan.required
        required = <const uint8_t*>PyBytes_AS_STRING(mask)
        width = PyBytes_GET_SIZE(mask)
        new_at, old_at = -1, -1
        if kind == c"I":
            operation, name = "c", "INSERT"
            new_at = FRAME_HEADER + 6
            if data[new_at - 1] != c"N" or _locate(data, new_at, size, &new) != size:
                break
            if not _fits(&new, required, width):
                break
        elif kind == c"U":
            operation, name = "u", "UPDATE"
            new_at = FRAME_HEADER + 6
            if data[new_at - 1] == c"O":
                old_at = new_at
                new_at = _locate(data, old_at, size, &old) + 1
                if new_at == 0 or new_at > size or not _fits(&old, required, width):
                    break
            if data[new_at - 1] != c"N" or _locate(data, new_at, size, &new) != size:
                break
            if not _fits(&new, required, width):
                break
            if old_at >= 0 and not _same_key(data, &new, &old, plan.key_places):
                break
        else:
            operation, name = "d", "DELETE"
            old_at = FRAME_HEADER + 6
            if _locate(data, old_at, size, &old) != size or old.count != width:
                break
            if data[old_at - 1] == c"O":
                if not _fits(&old, required, width):
                    break
            elif data[old_at - 1] != c"K" or not plan.is_identified:
                break
        if (new_at >= 0 and not _is_text(data, &new)) or (old_at >= 0 and not _is_text(data, &old)):
            break
        lsn = <int64_t>_uint64(data + 1)
        now_us = clock_us()
        records = 1 if lsn != last_lsn else records + 1
        last_lsn = lsn
        out.append(make(_change(plan, operation, frame, new_at, old_at, lsn, place, now_us, records, False)))
        if kind == c"D" and plan.has_tombstones:
            records += 1
            out.append(make(_change(plan, operation, frame, new_at, old_at, lsn, place, now_us, records, True)))
        message_type = name
        at += 1
    return at, last_lsn, records, message_type


cdef bint _same_key(const uint8_t* data, const Tuple* new, const Tuple* old, tuple places):
    """Whether an update keeps the key, whose columns are at these places."""
    cdef int32_t index
    for each in places:
        index = each
        if old.kind[index] != c"t":
            return False
        if new.kind[index] == c"u":
            continue
        if new.kind[index] != c"t" or new.size[index] != old.size[index]:
            return False
        if memcmp(data + new.start[index], data + old.start[index], new.size[index]) != 0:
            return False
    return True


def copied_row(block):
    cdef const uint8_t[::1] view = block
    cdef Py_ssize_t size = view.shape[0], at = 0, length = 0, start
    cdef const uint8_t* text = &view[0] if size else NULL
    cdef uint8_t byte
    cdef uint8_t* out
    cdef int32_t count = 0
    cdef bint is_ascii = True
    if not size or text[size - 1] != c"\n":
        raise ValueError("a row of COPY does not end with a line feed")
    size -= 1
    out = <uint8_t*>malloc(6 * size + 16)  # a field of no bytes takes five, beside its tab
    if out == NULL:
        raise MemoryError
    length = 2
    with nogil:
        while True:
            count += 1
            if (
                at + 2 <= size and text[at] == c"\\" and text[at + 1] == c"N"
                and (at + 2 == size or text[at + 2] == c"\t")
            ):
                out[length] = c"n"
                length += 1
                at += 2
            else:
                start = length
                length += 5
                while at < size and text[at] != c"\t":
                    byte = text[at]
                    if byte >= 0x80:
                        is_ascii = False
                    if byte == c"\\" and at + 1 < size and text[at + 1] != c"\t":
                        at += 1
                        byte = _unescaped(text[at])
                    out[length] = byte
                    length += 1
                    at += 1
                out[start] = c"t"
                out[start + 1] = ((length - start - 5) >> 24) & 0xFF
                out[start + 2] = ((length - start - 5) >> 16) & 0xFF
                out[start + 3] = ((length - start - 5) >> 8) & 0xFF
                out[start + 4] = (length - start - 5) & 0xFF
            if at >= size:
                break
            at += 1  # the tab
    out[0], out[1] = (count >> 8) & 0xFF, count & 0xFF
    try:
        if not is_ascii:
            PyUnicode_DecodeUTF8(<const char*>text, size, NULL)
        return PyBytes_FromStringAndSize(<const char*>out, length)
    finally:
        free(out)


cdef inline uint8_t _unescaped(uint8_t byte) noexcept nogil:
    if byte == c"b":
        return 8
    if byte == c"f":
        return 12
    if byte == c"n":
        return 10
    if byte == c"r":
        return 13
    if byte == c"t":
        return 9
    if byte == c"v":
        return 11
    return byte


# JSON


cdef struct CellLayout:
    Piece lead
    int32_t index
    int32_t scalar
    int32_t limit
    bint has_null
    bint has_unchanged
    Piece null
    Piece unchanged


cdef class RowLayout:
    """How rows become JSON; its twin says more."""

    cdef object _cells
    cdef bytes _begin, _end
    cdef CellLayout* cells
    cdef Py_ssize_t count

    def __cinit__(self, bytes begin, cells, bytes end):
        cdef Py_ssize_t at
        self._cells = tuple(cells)  # keeps what the pieces point to
        self._begin, self._end = begin, end
        self.count = len(self._cells)
        self.cells = <CellLayout*>malloc(max(self.count, 1) * sizeof(CellLayout))
        if self.cells == NULL:
            raise MemoryError
        for at in range(self.count):
            lead, index, scalar, limit, null, unchanged, _ = self._cells[at]
            self.cells[at].lead = _piece(lead)
            self.cells[at].index = index
            self.cells[at].scalar = scalar
            self.cells[at].limit = limit
            self.cells[at].has_null = null is not None
            if null is not None:
                self.cells[at].null = _piece(null)
            self.cells[at].has_unchanged = unchanged is not None
            if unchanged is not None:
                self.cells[at].unchanged = _piece(unchanged)

    def __dealloc__(self):
        free(self.cells)


cdef Piece _piece(bytes data):
    cdef Piece made
    made.data = PyBytes_AS_STRING(data)
    made.size = PyBytes_GET_SIZE(data)
    return made


cdef int _add_row(
    Buffer* out, RowLayout layout, const uint8_t* data, const Tuple* row, const Tuple* old
) except -1:
    cdef Py_ssize_t at
    cdef CellLayout* cell
    cdef const Tuple* source
    cdef int32_t index
    add_piece(out, _piece(layout._begin))
    for at in range(layout.count):
        cell = &layout.cells[at]
        index = cell.index
        if index >= row.count:
            raise IndexError(f"a row has {row.count} columns; expected more than {index}")
        add_piece(out, cell.lead)
        source = row
        if row.kind[index] == c"u":
            if old == NULL or index >= old.count or old.kind[index] != c"t":
                if cell.has_unchanged:
                    add_piece(out, cell.unchanged)
                else:
                    _add_bytes(out, layout._cells[at][6](Unchanged.TOAST))
                continue
            source = old
        if source.kind[index] == c"n":
            if cell.has_null:
                add_piece(out, cell.null)
            else:
                _add_bytes(out, layout._cells[at][6](None))
        elif not _add_scalar(out, cell, data + source.start[index], source.size[index]):
            text = PyUnicode_DecodeUTF8(<const char*>data + source.start[index], source.size[index], NULL)
            _add_bytes(out, layout._cells[at][6](text))
    return add_piece(out, _piece(layout._end))


cdef int _add_bytes(Buffer* out, bytes data) except -1:
    return add_piece(out, _piece(data))


cdef int _add_scalar(Buffer* out, const CellLayout* cell, const uint8_t* text, int32_t size) except -1:
    """Write a value that needs no Python; 0 if it needs it."""
    cdef int64_t number
    if cell.scalar == INTEGER:
        return add_integer(out, text, size, cell.limit)
    if cell.scalar == TEXT:
        return add_text(out, text, size)
    if cell.scalar == MICROS or cell.scalar == MILLIS:
        if not timestamp(text, size, &number):
            return 0
        add_number(out, number if cell.scalar == MICROS else floor(number, 1000))
        return 1
    if cell.scalar == DECIMAL:
        return add_decimal(out, text, size, cell.limit)
    if cell.scalar == BOOLEAN:
        if size == 1 and text[0] == c"t":
            add(out, b"true", 4)
        else:
            add(out, b"false", 5)
        return 1
    if cell.scalar == DATE:
        if size != 10 or not date(text, size, &number):
            return 0
        add_number(out, number)
        return 1
    if cell.scalar == ZONED:
        return add_zoned(out, text, size, cell.limit)
    return 0


cdef class EnvelopeLayout:
    """How envelopes become JSON; its twin says more."""

    cdef bytes head, middle, null
    cdef tuple parts
    cdef Py_ssize_t count
    cdef int* slots
    cdef Piece* pieces

    def __cinit__(self, bytes head, bytes middle, bytes null, parts):
        cdef Py_ssize_t at
        self.head, self.middle, self.null = head, middle, null
        self.parts = tuple(parts)
        self.count = len(self.parts)
        self.slots = <int*>malloc(max(self.count, 1) * sizeof(int))
        self.pieces = <Piece*>malloc(max(self.count, 1) * sizeof(Piece))
        if self.slots == NULL or self.pieces == NULL:
            raise MemoryError
        for at in range(self.count):
            piece, slot = self.parts[at]
            self.pieces[at] = _piece(piece)
            self.slots[at] = slot

    def __dealloc__(self):
        free(self.slots)
        free(self.pieces)


def key_json(Change change, RowLayout layout):
    cdef Buffer out
    cdef Tuple row, old
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(change.frame)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(change.frame)
    cdef bint has_old = change.old_at >= 0
    if has_old:
        _expect(_locate(data, change.old_at, size, &old))
    if change.new_at >= 0:
        _expect(_locate(data, change.new_at, size, &row))
    out.data, out.size, out.room = NULL, 0, 0
    try:
        room(&out, 256)
        if change.new_at < 0:
            _add_row(&out, layout, data, &old, NULL)
        else:
            _add_row(&out, layout, data, &row, &old if has_old else NULL)
        return PyBytes_FromStringAndSize(out.data, out.size)
    finally:
        free(out.data)


def value_json(Change change, RowLayout layout, EnvelopeLayout envelope):
    cdef Buffer out
    cdef Tuple row, old
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(change.frame)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(change.frame), at
    cdef bint has_old = change.old_at >= 0
    cdef int64_t numbers[10]
    committed, xid, committed_us = change.place
    numbers[<int>LSN] = change.lsn
    numbers[<int>COMMITTED] = committed or 0
    numbers[<int>XID] = xid or 0
    numbers[<int>COMMIT_US] = committed_us or 0
    numbers[<int>COMMIT_MS] = floor(numbers[<int>COMMIT_US], 1000)
    numbers[<int>COMMIT_NS] = (committed_us or 0) * 1000  # a Python number, which raises if it is too large
    numbers[<int>NOW_US] = change.now_us
    numbers[<int>NOW_MS] = floor(change.now_us, 1000)
    numbers[<int>NOW_NS] = change.now_us * 1000
    out.data, out.size, out.room = NULL, 0, 0
    try:
        room(&out, 2048)
        add_piece(&out, _piece(envelope.head))
        if has_old:
            _expect(_locate(data, change.old_at, size, &old))
            _add_row(&out, layout, data, &old, NULL)
        else:
            add_piece(&out, _piece(envelope.null))
        add_piece(&out, _piece(envelope.middle))
        if change.new_at >= 0:
            _expect(_locate(data, change.new_at, size, &row))
            _add_row(&out, layout, data, &row, &old if has_old else NULL)
        else:
            add_piece(&out, _piece(envelope.null))
        for at in range(envelope.count):
            add_piece(&out, envelope.pieces[at])
            if envelope.slots[at]:
                add_number(&out, numbers[envelope.slots[at]])
        return PyBytes_FromStringAndSize(out.data, out.size)
    finally:
        free(out.data)


cdef int _expect(int32_t end) except -1:
    if end < 0:
        raise ValueError("the row of a change is malformed")
    return 0
