"""The JSON of simple values, straight from PostgreSQL's texts, in a buffer that grows.

A function gives 0 and leaves the buffer's size as it is if the text is not of the plain form that it knows.
The converter's own functions then write the value.
"""

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcmp, memcpy


cdef struct Buffer:
    char* data
    Py_ssize_t size
    Py_ssize_t room


cdef struct Piece:
    const char* data
    Py_ssize_t size


cdef inline char* room(Buffer* out, Py_ssize_t size) except NULL:
    cdef Py_ssize_t room
    cdef char* data
    if out.size + size > out.room:
        room = 2 * (out.size + size)
        data = <char*>realloc(out.data, room)
        if data == NULL:
            raise MemoryError
        out.data, out.room = data, room
    return out.data + out.size


cdef inline int add(Buffer* out, const char* data, Py_ssize_t size) except -1:
    memcpy(room(out, size), data, size)
    out.size += size
    return 0


cdef inline int add_piece(Buffer* out, Piece piece) except -1:
    return add(out, piece.data, piece.size)


cdef inline int add_number(Buffer* out, int64_t number) except -1:
    cdef char digits[20]
    cdef int at = 20
    cdef uint64_t left = <uint64_t>number
    if number < 0:
        left = 0 - left
    while True:
        at -= 1
        digits[at] = <char>(48 + left % 10)
        left //= 10
        if left == 0:
            break
    if number < 0:
        add(out, b"-", 1)
    return add(out, digits + at, 20 - at)


cdef inline bint _is_digit(uint8_t byte) noexcept nogil:
    return 48 <= byte <= 57


cdef inline int add_integer(Buffer* out, const uint8_t* text, int32_t size, int32_t most) except -1:
    """Copy an integer as it is written without need; 0 if it is written otherwise or may be too large."""
    cdef int32_t index, first = 1 if size and text[0] == c"-" else 0
    if size <= first or size - first > most:
        return 0
    if text[first] == 48 and (size - first > 1 or first):
        return 0
    for index in range(first, size):
        if not _is_digit(text[index]):
            return 0
    add(out, <const char*>text, size)
    return 1


cdef inline int add_text(Buffer* out, const uint8_t* text, int32_t size) except -1:
    """Quote a text; 0 if it has control characters or characters beyond 16 bits."""
    cdef Py_ssize_t begin = out.size
    cdef uint8_t* at = <uint8_t*>room(out, 2 * <Py_ssize_t>size + 2)
    cdef uint8_t* first = at
    cdef bint is_ascii = True
    cdef int32_t index
    cdef uint8_t byte
    at[0] = c'"'
    at += 1
    for index in range(size):
        byte = text[index]
        if byte < 0x20 or byte >= 0xF0:
            return 0
        if byte >= 0x80:
            is_ascii = False
        elif byte == c'"' or byte == c"\\":
            at[0] = c"\\"
            at += 1
        at[0] = byte
        at += 1
    if not is_ascii:
        PyUnicode_DecodeUTF8(<const char*>text, size, NULL)
    at[0] = c'"'
    out.size = begin + (at + 1 - first)
    return 1


cdef inline int32_t _two(const uint8_t* text) noexcept nogil:
    """Two digits; a number above 99 if they are none."""
    if not _is_digit(text[0]) or not _is_digit(text[1]):
        return 1000
    return 10 * (text[0] - 48) + text[1] - 48


cdef inline bint date(const uint8_t* text, int32_t size, int64_t* days) noexcept nogil:
    """Days since 1970 of a date whose year has four digits."""
    cdef int64_t year, era, of_era, of_year
    cdef int32_t month, day, century
    if size < 10 or text[4] != c"-" or text[7] != c"-":
        return False
    century, year = _two(text), _two(text + 2)
    month, day = _two(text + 5), _two(text + 8)
    if century > 99 or year > 99 or month > 12 or day > 31:
        return False
    year += 100 * century
    year -= month <= 2
    if year < 0:
        return False
    era, of_era = year // 400, year % 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    days[0] = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    return True


cdef inline int32_t _time(const uint8_t* text, int32_t size, int64_t* micros) noexcept nogil:
    """Microseconds of a time with seconds, in front of the text; its length, or 0 if there is none."""
    cdef int32_t hours, minutes, seconds, at = 8, digits = 0
    cdef int64_t fraction = 0
    if size < 8 or text[2] != c":" or text[5] != c":":
        return 0
    hours, minutes, seconds = _two(text), _two(text + 3), _two(text + 6)
    if hours > 24 or minutes > 59 or seconds > 60:
        return 0
    if at < size and text[at] == c".":
        at += 1
        while at < size and digits < 6 and _is_digit(text[at]):
            fraction = 10 * fraction + text[at] - 48
            digits += 1
            at += 1
        if not digits:
            return 0
        while digits < 6:
            fraction *= 10
            digits += 1
    micros[0] = (<int64_t>hours * 3600 + minutes * 60 + seconds) * 1000000 + fraction
    return at


cdef inline bint timestamp(const uint8_t* text, int32_t size, int64_t* micros) noexcept nogil:
    """Microseconds since 1970 of a timestamp without a zone."""
    cdef int64_t days, time
    if not date(text, size, &days) or size < 19 or text[10] != c" ":
        return False
    if _time(text + 11, size - 11, &time) != size - 11:
        return False
    micros[0] = days * (<int64_t>86400 * 1000000) + time
    return True


cdef inline int64_t floor(int64_t number, int64_t divisor) noexcept nogil:
    cdef int64_t found = number // divisor
    return found - (number % divisor < 0)


cdef inline int add_zoned(Buffer* out, const uint8_t* text, int32_t size, int32_t digits) except -1:
    """Write a timestamp whose zone is UTC, with so many digits of a second; 0 if it is another one."""
    cdef int64_t days, time
    cdef int32_t index, length, had
    cdef char* at
    if not 0 <= digits <= 6 or not date(text, size, &days) or size < 22 or text[10] != c" ":
        return 0
    length = _time(text + 11, size - 11, &time)
    # A day that ends at 24:00 or with a leap second has another date in UTC
    if not length or time >= (<int64_t>86400 * 1000000) or _two(text + 17) == 60 or memcmp(text, b"0000", 4) == 0:
        return 0
    if 11 + length + 3 != size or memcmp(text + 11 + length, b"+00", 3) != 0:
        return 0
    if _two(text + 5) < 1 or _two(text + 8) < 1 or _two(text + 8) > 28:
        return 0  # the date may be one that does not exist
    at = room(out, 40)
    at[0] = c'"'
    memcpy(at + 1, text, 19)
    at[11] = c"T"
    index = 20
    if digits:
        at[index] = c"."
        index += 1
        had = length - 9
        for length in range(digits):
            at[index] = <char>text[20 + length] if length < had else c"0"
            index += 1
    at[index], at[index + 1] = c"Z", c'"'
    out.size += index + 2
    return 1


cdef inline int add_decimal(Buffer* out, const uint8_t* text, int32_t size, int32_t scale) except -1:
    """Write the base64 of a decimal's unscaled number; 0 if it has another scale or many digits."""
    cdef int64_t number = 0
    cdef uint8_t raw[12]
    cdef int32_t index, digits = 0, after = -1, first = 1 if size and text[0] == c"-" else 0, length
    cdef const char* letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    cdef char* at
    cdef uint32_t group
    for index in range(first, size):
        if text[index] == c"." and after < 0:
            after = 0
            continue
        if not _is_digit(text[index]):
            return 0
        digits += 1
        if digits > 18:
            return 0
        number = 10 * number + text[index] - 48
        if after >= 0:
            after += 1
    if not digits or max(after, 0) != scale or after == 0 or (first and not number):
        return 0
    if first:
        number = -number
    length = 1
    while length < 8 and not -(<int64_t>1 << (8 * length - 1)) <= number < (<int64_t>1 << (8 * length - 1)):
        length += 1
    for index in range(12):
        raw[index] = 0
    for index in range(length):
        raw[index] = <uint8_t>((<uint64_t>number >> (8 * (length - 1 - index))) & 0xFF)
    at = room(out, 20)
    at[0] = c'"'
    at += 1
    for index in range(0, length, 3):
        group = (<uint32_t>raw[index] << 16) | (<uint32_t>raw[index + 1] << 8) | raw[index + 2]
        at[0] = letters[group >> 18]
        at[1] = letters[(group >> 12) & 63]
        at[2] = letters[(group >> 6) & 63] if length - index > 1 else c"="
        at[3] = letters[group & 63] if length - index > 2 else c"="
        at += 4
    at[0] = c'"'
    out.size += 2 + 4 * ((length + 2) // 3)
    return 1
