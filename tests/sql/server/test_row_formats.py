"""The formats of a stream of rows: of results that end, that fail, and that pause for a while."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.reading.results import QueryResult, QueuedRows, ResultColumn, Tombstone
from penstock.sql.language import types
from penstock.sql.server import media
from penstock.sql.server.reading import RowReading
from penstock.sql.server.row_formats import RowFormat, query_format, stream_format
from penstock.sql.server.row_json import schema_text, type_text

COLUMNS = (ResultColumn("ID", types.INTEGER, True), ResultColumn("V", types.STRING, False))
Form = Callable[[QueryResult, str], RowFormat]


def a_result(*, is_push: bool = True, limit: int | None = None) -> QueuedRows:
    return QueuedRows("q1", COLUMNS, is_push=is_push, limit=limit, text="SELECT …")


def pieces(result: QueuedRows, form: RowFormat) -> list[str]:
    reading = RowReading(result, form)
    reading.start()
    found = [reading.begin().decode()]
    while (more := reading.next_pieces()) is not None:
        found += [piece.decode() for piece in more]
    return [piece for piece in found if piece]


@pytest.mark.parametrize("is_push", [True, False])
@pytest.mark.parametrize("count", [0, 1, 5000])
def test_each_form_is_whole_however_many_rows_there_are(is_push: bool, count: int) -> None:
    rows = [(number, f"v{number}") for number in range(count)]
    expected = [list(row) for row in rows]

    def text(form: Form, kind: str) -> str:
        result = a_result(is_push=is_push)
        for row in rows:
            result.put(row)
        result.finish()
        return "".join(pieces(result, form(result, kind)))

    header = {"queryId": "q1", "columnNames": ["ID", "V"], "columnTypes": ["INTEGER", "STRING"]}
    assert json.loads(text(stream_format, media.JSON)) == [header, *expected]
    lines = text(stream_format, media.DELIMITED).splitlines()
    assert list(map(json.loads, lines)) == [header, *expected]
    assert text(query_format, media.DELIMITED).splitlines() == lines
    first, *others = json.loads(text(query_format, media.KSQL_V1))
    schema = "`ID` INTEGER, `V` STRING" if is_push else "`ID` INTEGER KEY, `V` STRING"
    assert first == {"header": {"queryId": "q1", "schema": schema}}
    if is_push:
        assert others.pop() == {"finalMessage": "Query Completed"}
    assert [each["row"]["columns"] for each in others] == expected
    assert text(stream_format, media.KSQL_V1) == text(query_format, media.KSQL_V1)


@pytest.mark.parametrize("count", [0, 1, 20])
def test_a_few_rows_of_a_query_that_ends_are_one_answer(count: int) -> None:
    result = a_result(is_push=False)
    for number in range(count):
        result.put((number, "v"))
    result.finish()
    reading = RowReading(result, stream_format(result, media.DELIMITED))
    reading.start()
    whole = reading.whole()
    assert whole is not None
    assert len(whole.splitlines()) == 1 + count


def test_the_line_of_a_pushed_row_is_complete_when_it_comes() -> None:
    result = a_result()
    reading = RowReading(result, query_format(result, media.KSQL_V1))
    reading.start()
    assert reading.begin().endswith(b"\n")
    result.put((1, "a"))
    assert reading.next_pieces() == [b'{"row":{"columns":[1,"a"]}},\n']
    result.close()


def test_rows_are_sent_one_by_one_where_clients_count_on_it() -> None:
    for form, kind, count in (
        (stream_format, media.DELIMITED, 3),
        (query_format, media.KSQL_V1, 3),
        (stream_format, media.JSON, 1),
    ):
        result = a_result()
        for number in range(3):
            result.put((number, "v"))
        reading = RowReading(result, form(result, kind))
        reading.start()
        found = reading.next_pieces()
        assert found is not None
        assert len(found) == count


def test_a_limit_is_told_where_it_ended_a_push_query() -> None:
    result = a_result(limit=2)
    for number in range(5):
        result.put((number, None))
    found = json.loads("".join(pieces(result, query_format(result, media.KSQL_V1))))
    assert [each["row"]["columns"] for each in found[1:-1]] == [[0, None], [1, None]]
    assert found[-1] == {"finalMessage": "Limit Reached"}


def test_tombstones_are_told_in_the_form_that_has_them() -> None:
    for form, kind, shown in (
        (query_format, media.KSQL_V1, '{"row":{"columns":[1,null],"tombstone":true}}'),
        (stream_format, media.DELIMITED, None),
        (stream_format, media.JSON, None),
    ):
        result = a_result()
        result.put(Tombstone((1, None)))
        result.put((2, "b"))
        result.finish()
        text = "".join(pieces(result, form(result, kind)))
        assert (shown in text) if shown else ("null" not in text)
        assert '2,"b"' in text


@pytest.mark.parametrize("error", [EngineError("no more", ErrorCode.SERVER_ERROR), RuntimeError("no more")])
def test_a_failure_is_the_last_element(error: Exception) -> None:
    for form, kind in (
        (query_format, media.KSQL_V1),
        (stream_format, media.JSON),
        (stream_format, media.DELIMITED),
    ):
        result = a_result()
        result.put((1, "a"))
        result.fail(error)
        text = "".join(pieces(result, form(result, kind)))
        found = list(map(json.loads, text.splitlines())) if kind == media.DELIMITED else json.loads(text)
        told = found[-1]["errorMessage"] if kind == media.KSQL_V1 else found[-1]
        assert (told["@type"], told["error_code"]) == ("generic_error", 50000)
        assert "no more" in told["message"]
        assert len(found) == 3


def test_what_a_pull_query_fails_with_at_once_is_no_part_of_its_rows() -> None:
    result = a_result(is_push=False)
    result.fail(EngineError("no such key", ErrorCode.BAD_STATEMENT))
    reading = RowReading(result, stream_format(result, media.DELIMITED))
    with pytest.raises(EngineError, match="no such key"):
        reading.start()


def test_without_news_there_is_an_empty_piece_and_then_the_rows() -> None:
    result = a_result()
    reading = RowReading(result, stream_format(result, media.DELIMITED))
    reading.start()
    assert reading.next_pieces() == []
    result.put((1, "a"))
    assert reading.next_pieces() == [b'[1,"a"]\n']
    reading.close()
    assert reading.next_pieces() is None


def test_names_of_fields_stand_as_each_form_has_them() -> None:
    struct = types.Struct(
        (("a b", types.Array(types.Decimal(4, 2))), ("C", types.Map(types.STRING, types.DATE)))
    )
    column = ResultColumn("odd`name", struct, False)
    assert schema_text([column], with_keys=True) == (
        "`odd``name` STRUCT<`a b` ARRAY<DECIMAL(4, 2)>, `C` MAP<STRING, DATE>>"
    )
    assert type_text(struct, lambda name: name) == "STRUCT<a b ARRAY<DECIMAL(4, 2)>, C MAP<STRING, DATE>>"


@pytest.mark.parametrize(
    ("accept", "found"),
    [
        (None, media.JSON),
        ("", media.JSON),
        ("*/*", media.JSON),
        (media.KSQL_V1, media.KSQL_V1),
        (f"{media.JSON};q=0.2, {media.KSQL_V1};q=0.3", media.KSQL_V1),
        (f"{media.JSON};q=0, */*", media.KSQL_V1),
        ("application/*;q=x", None),
        ("text/html", None),
    ],
)
def test_the_type_that_is_liked_most_is_chosen(accept: str | None, found: str | None) -> None:
    assert media.chosen(accept, (media.JSON, media.KSQL_V1)) == found
