"""Arrays and hstores of PostgreSQL's texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connect.cdc.postgres.containers import read_array, read_hstore
from penstock.connect.errors import DataError

TEXTS = st.text(st.sampled_from('ab ,{}"\\=>\n\täNUL'))


def quoted(text: str | None) -> str:
    """A text as PostgreSQL writes it inside arrays and hstores."""
    if text is None:
        return "NULL"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@given(st.lists(st.none() | TEXTS))
def test_arrays(elements: list[str | None]) -> None:
    assert read_array("{" + ",".join(map(quoted, elements)) + "}") == elements


@given(st.dictionaries(TEXTS, st.none() | TEXTS))
def test_hstores(pairs: dict[str, str | None]) -> None:
    text = ", ".join(f"{quoted(key)}=>{quoted(value)}" for key, value in pairs.items())
    assert read_hstore(text) == pairs


def test_dimensions_and_lower_bounds() -> None:
    assert read_array("[0:1][-1:0]={{1,NULL},{a b,4}}") == [["1", None], ["a b", "4"]]
    assert read_array("{(1,1),(0,0);(3,3),(2,2)}", ";") == ["(1,1),(0,0)", "(3,3),(2,2)"]


@pytest.mark.parametrize("text", ["", "1", "{", "{1", "{1}}", "{1}x", '{"a}', "{{1}"])
def test_broken_arrays_are_errors(text: str) -> None:
    with pytest.raises(DataError, match="is not an array"):
        read_array(text)


@pytest.mark.parametrize("text", ["a", '"a"', '"a"=>', '"a"=>"1" "b"=>"2"', '"a"=>1'])
def test_broken_hstores_are_errors(text: str) -> None:
    with pytest.raises(DataError, match="is not an hstore"):
        read_hstore(text)
