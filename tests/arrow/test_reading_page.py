"""The examples of docs/reading.md run unchanged, one after the other, on a node."""

import json
import re
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from penstock.testing import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "reading.md"


@pytest.fixture(scope="module")
def servers():
    """A node for this page only, because other tests use topics with the same names."""
    with Cluster() as cluster:
        yield cluster.bootstrap_servers


def test_the_examples_run(servers, admin, produce, capsys):
    for future in admin.create_topics([NewTopic("orders", 2, 1), NewTopic("payments", 1, 1)]).values():
        future.result(30)
    for n in range(8):
        customer = {"name": "n", "country": "NL" if n % 2 else "FR"}
        order = {"id": n, "amount": n, "customer": customer}
        produce("orders", [json.dumps(order).encode()], key=b"k", partition=n % 2)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 4
    names: dict[str, object] = {}
    for example in examples:
        exec(example.replace("127.0.0.1:9092", servers), names)
    assert names["by_country"].fetchall() == [("FR", 12.0), ("NL", 16.0)]
    assert names["table"].num_rows == len(names["frame"]) == len(names["pandas_frame"]) == 8
    offsets = {
        name: {
            tp.partition: (r.start, r.stop) for tp, r in names[name].offsets.items() if tp.topic == "orders"
        }
        for name in ("recent", "replay", "both", "part")
    }
    assert offsets == {
        "recent": {0: (0, 4), 1: (0, 4)},
        "replay": {0: (2, 4), 1: (0, 3)},
        "both": {0: (0, 4), 1: (0, 4)},
        "part": {1: (0, 4)},
    }
    assert names["bad"] == []
    produce("orders", [b"oops"], partition=0)
    exec(examples[3].replace("127.0.0.1:9092", servers), names)
    ((partition, offset, why),) = names["bad"]
    assert (partition, offset) == (0, 4)
    assert "oops" in why
    assert "country" in capsys.readouterr().out
    with pytest.raises(ValueError, match="'oops'"):
        names["penstock"].read("orders", servers, value_format="json").to_table()
