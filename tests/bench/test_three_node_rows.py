"""The comparison of three nodes: what they are told, and how the figures look. No timings."""

from pathlib import Path

from side_by_side.brokers import Penstock, Place
from side_by_side.three_node_page import COLUMNS, Results, render
from side_by_side.three_node_rows import rows


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


def test_ratios_are_above_1_where_penstock_is_better() -> None:
    results: Results = {
        "produce": {
            "penstock": [{"records/s": 300.0, "CPU s/GB": 2.0}, {"records/s": 100.0, "CPU s/GB": 4.0}],
            "kafka": [{"records/s": 100.0, "CPU s/GB": 6.0}],
        },
        "kill": {"kafka": [{"felt s": 9.5}]},
    }
    page = render(results, {"processor": "a quick one", "file system": "ext4"}, 2, 0.5)
    cells = {
        (row, broker): values
        for line in page.splitlines()
        if line.startswith("| ") and "---" not in line
        for row, broker, *values in [[cell.strip() for cell in line.split("|")[1:-1]]]
    }
    names = list(COLUMNS)
    ours, theirs = cells["produce", "Penstock"], cells["", "Apache Kafka"]
    alone = cells["kill", "Apache Kafka"]
    assert ours[names.index("records/s")] == "200 (× 2.00)"
    assert ours[names.index("CPU s/GB")] == "3.00 (× 2.00)"
    assert theirs[names.index("CPU s/GB")] == "6.00"
    assert ours[names.index("felt s")] == ""
    assert alone[names.index("felt s")] == "9.50"


def test_names_of_rows_are_unique() -> None:
    names = [row.name for row in rows()]
    assert len(set(names)) == len(names) > 5
