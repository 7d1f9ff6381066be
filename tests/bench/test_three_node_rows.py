"""The comparison of three nodes: the settings of each node, and the form of the figures. No timings."""

from pathlib import Path

import pytest

from side_by_side import start_several, three_node_failures, three_node_rows
from side_by_side.brokers import Penstock, Place
from side_by_side.three_node_report import FAILURES, LOAD, SEVERAL, Column, render
from side_by_side.three_node_results import ThreeNodeResults


def test_each_node_is_told_of_all() -> None:
    place = Place(2, ("127.0.0.1:1001", "127.0.0.1:1002", "127.0.0.1:1003"))
    node = Penstock(Path("/nowhere"), 0, 9092, place)
    found = node.settings()
    assert found["node.id"] == "2"
    assert found["controller.quorum.voters"] == "1@127.0.0.1:1001,2@127.0.0.1:1002,3@127.0.0.1:1003"
    assert found["listeners"].endswith("CONTROLLER://127.0.0.1:1002")
    assert found["offsets.topic.replication.factor"] == "3"
    alone = Penstock(Path("/nowhere"), 0, 9092).settings()
    assert alone["offsets.topic.replication.factor"] == "1"
    assert alone["controller.quorum.voters"].startswith("1@127.0.0.1:")


@pytest.fixture
def results() -> ThreeNodeResults:
    """The results of two rounds; Apache Kafka's second one has failed."""
    made = ThreeNodeResults({"processor": "a quick one"}, 0.5)
    figures = {"records/s": 300.0, "records per CPU s": 100.0, "p99 ms": 2.0}
    made.add("produce", "penstock", 1, figures)
    made.add("produce", "kafka", 1, {"records/s": 100.0, "records per CPU s": 50.0, "p99 ms": 5.0})
    made.add("produce", "penstock", 2, {**figures, "records/s": 100.0})
    made.add("kill", "kafka", 1, {"felt s": 9.5})
    made.add("--brokers 2", "penstock", 1, {"records/s": 7000.0})
    return made


def cells(page: str, columns: tuple[Column, ...], row: str) -> list[dict[str, str]]:
    """The cells of each side, in the row with this name and in the rows below it without a name."""
    ratios = [column.ratio for column in columns if column.ratio]
    names = ["row", "side", *(column.name for column in columns), *ratios]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    first = next(at for at, line in enumerate(lines) if line[:1] == [row])
    found = [dict(zip(names, lines[first], strict=False))]
    for line in lines[first + 1 :]:
        if line[:1] != [""]:
            break
        found.append(dict(zip(names, line, strict=False)))
    return found


def test_ratios_are_those_of_the_same_round_and_above_1_where_penstock_is_better(
    results: ThreeNodeResults,
) -> None:
    page = render(results)
    ours, theirs = cells(page, LOAD, "produce")
    assert (ours["side"], theirs["side"]) == ("Penstock", "Apache Kafka")
    assert ours["records/s"] == "200 (100–300)"
    assert ours["× records/s"] == "3.00", "the second round has nothing to be compared with"
    assert ours["× per CPU s"] == "2.00"
    assert ours["× less p99"] == "2.50"
    assert theirs["records/s"] == "100"
    assert theirs["× records/s"] == ""


def test_rows_of_another_kind_have_tables_of_their_own(results: ThreeNodeResults) -> None:
    page = render(results)
    (kill,) = cells(page, FAILURES, "kill")
    assert kill["felt s"] == "9.50"
    (several,) = cells(page, SEVERAL, "--brokers 2")
    assert several["records/s"] == "7,000"
    assert page.index("| produce |") < page.index("| kill |") < page.index("| --brokers 2 |")


def test_results_are_read_as_they_were_written(results: ThreeNodeResults, tmp_path: Path) -> None:
    results.write(tmp_path / "there" / "results.json")
    assert ThreeNodeResults.read(tmp_path / "there" / "results.json") == results


def test_names_of_rows_are_unique() -> None:
    names = [row.name for row in (*three_node_rows.rows(), *three_node_failures.rows())]
    names += [start_several.name_of(count) for count in start_several.COUNTS]
    assert len(set(names)) == len(names) > 10
