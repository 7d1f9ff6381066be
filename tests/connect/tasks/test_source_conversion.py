"""Records of a source become bytes; the conversion keeps what the records that follow may share."""

from penstock.connect import SourceRecord, SourceTask
from penstock.connect.converters.headers import SimpleHeaderConverter
from penstock.connect.converters.plain import StringConverter
from penstock.connect.data.records import Header
from penstock.connect.tasks.harness import SourceTaskTest


class Reusing(SourceTask):
    """A task that keeps its headers in a list, which it changes between its polls."""

    def __init__(self) -> None:
        self._headers: list[Header] = []

    def poll(self) -> list[SourceRecord]:
        self._headers[:] = [Header("number", str(len(self._headers)))] * (len(self._headers) + 1)
        return [SourceRecord(topic="t", value="v", headers=self._headers)]  # type: ignore[arg-type]


def test_headers_in_a_list_that_changes_are_converted_each_time() -> None:
    keys, values = StringConverter(), StringConverter()
    keys.configure({}, True)
    values.configure({}, False)
    with SourceTaskTest(
        Reusing(),
        {},
        key_converter=keys,
        value_converter=values,
        header_converter=SimpleHeaderConverter(),
    ) as test:
        found = [len(test.poll()[0].headers) for _ in range(3)]
    assert found == [1, 2, 3]
