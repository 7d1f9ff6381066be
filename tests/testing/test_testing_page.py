"""The examples of docs/testing.md that stand alone run as they are printed."""

import re
from pathlib import Path

from nested_pytest import run_pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
SHARES = """
from confluent_kafka import Producer

def test_produces(kafka):
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce("orders", b"tea")
    assert producer.flush(30) == 0
    with open("addresses", "a") as file:
        file.write(f"{kafka}\\n")
"""
FAILS = """
from confluent_kafka import Producer

def test_fails(kafka):
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce("lost", b"tea")
    assert producer.flush(30) == 1
"""


def example_with(words: str) -> str:
    [found] = [
        code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if words in code
    ]
    return str(found)


def test_workers_share_a_node_and_report_its_log(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(example_with("workerinput"))
    (tmp_path / "test_fails.py").write_text(FAILS)
    for number in range(2):
        (tmp_path / f"test_shares_{number}.py").write_text(SHARES)
    done = run_pytest(tmp_path, "-p", "penstock.testing.pytest_plugin", "-n", "2")
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    first, second = (tmp_path / "addresses").read_text().splitlines()
    assert first == second
    assert "penstock node log" in done.stdout
    assert re.search(r"the last \d+ of \d+ lines while this test ran, of a shared node:", done.stdout)
    assert "topic created topic=lost " in done.stdout


def test_the_example_with_a_registry() -> None:
    scope: dict[str, object] = {}
    exec(example_with("AvroSerializer"), scope)
    assert bytes(scope["value"])[:1] == b"\0"  # the magic byte, before the id of the schema


def test_the_example_with_the_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(example_with("test_orders_arrive"))
    done = run_pytest(tmp_path, "-p", "penstock.testing.pytest_plugin")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_examples_with_security(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(example_with("test_bob_reads_what_alice_writes"))
    (tmp_path / "test_user.py").write_text(example_with("test_a_producer_needs_no_more_than_this"))
    done = run_pytest(tmp_path, "-p", "penstock.testing.pytest_plugin")
    assert "3 passed" in done.stdout, done.stdout + done.stderr
