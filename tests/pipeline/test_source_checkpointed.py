"""A query's checkpoint as JSON, and the lag that its progress shows. No broker, no Spark."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.connections.metadata import TopicPartition
from penstock.client.settings import ConfigError
from penstock.protocol.uuids import uuid_to_text
from penstock.spark import lag
from penstock.spark.source.checkpointed import Checkpointed, GroupRef
from penstock.spark.source.offsets import from_json

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ONE, TWO = uuid_to_text(b"1" * 16), uuid_to_text(b"2" * 16)

topics = st.sampled_from(["a", "b", "Z", "_", "0"])
offsets = st.dictionaries(
    st.builds(TopicPartition, topics, st.integers(0, 12)), st.integers(0, 1000), max_size=8
)
ids = st.sampled_from([{}, dict.fromkeys(["a", "b", "Z", "_", "0"], ONE)])
groups = st.none() | st.builds(GroupRef, st.text(min_size=1), st.text())


@given(offsets, ids, groups, st.none() | st.text())
def test_json_round_trip_has_one_text(given_offsets, given_ids, group, cluster):
    """Spark compares the text to find out whether there is anything new."""
    kept = Checkpointed(given_offsets, given_ids, group, cluster)
    text = json.dumps(kept.to_json())
    again = Checkpointed.from_json(json.loads(text))
    assert (again.offsets, again.group, again.cluster_id) == (given_offsets, group, cluster)
    assert json.dumps(again.to_json()) == text
    backwards = Checkpointed(dict(reversed(given_offsets.items())), given_ids, group, cluster)
    assert json.dumps(backwards.to_json()) == text
    assert from_json(json.loads(text)) == given_offsets, "who wants offsets alone gets them"


def test_the_shape():
    kept = Checkpointed({A1: 5, A0: 3}, {"a": ONE}, GroupRef("g", "c"), "c")
    assert kept.to_json() == {
        "a": {"0": 3, "1": 5},
        "@topics": {"a": ONE},
        "@cluster": {"id": "c"},
        "@group": {"id": "g", "cluster": "c"},
    }
    assert kept.topic_id("a") == b"1" * 16


def test_a_checkpoint_of_sparks_own_source_is_understood():
    kept = Checkpointed.from_json({"a": {"0": 3}})
    assert kept == Checkpointed({A0: 3}, {}, None)
    assert kept.to_json() == {"a": {"0": 3}}
    assert kept.topic_id("a") is None


def test_a_topic_created_again_is_told_by_its_id():
    before = Checkpointed({A0: 3, A1: 4, B0: 5}, {"a": ONE, "b": ONE})
    after = Checkpointed({A0: 9, B0: 6}, {"a": TWO, "b": ONE})
    assert before.recreated(after) == ["a"]
    assert before.still_there(after) == {B0: 5}
    assert before.recreated(Checkpointed({B0: 6}, {"b": ONE})) == [], "gone is not created again"
    assert Checkpointed({A0: 3}, {}).recreated(after) == [], "an older checkpoint has no ids"


def source(end, latest):
    return {"startOffset": None, "endOffset": json.dumps(end), "latestOffset": json.dumps(latest)}


PROGRESS = {
    "sources": [
        source({"a": {"0": 3, "1": 5}, "@topics": {"a": ONE}}, {"a": {"0": 10, "1": 5, "2": 4}}),
        source({"a": {"0": 2}}, {"a": {"0": 10}}),
        source(17, 20),
        {"startOffset": None, "endOffset": None, "latestOffset": None},
    ]
}


class Progress:
    json = json.dumps(PROGRESS)


@pytest.mark.parametrize("progress", [PROGRESS, json.dumps(PROGRESS), Progress()])
def test_lag_of_every_partition(progress):
    behind = lag(progress)
    assert behind.partitions == {A0: 8, A1: 0, TopicPartition("a", 2): 4}
    assert behind.partitions["a", 0] == 8
    assert behind.total == 12
    assert str(behind) == "12 (a-0: 8, a-2: 4)"


def test_offsets_may_be_objects_already():
    """`StreamingQueryProgress.prettyJson` contains objects."""
    assert lag({"sources": [{"endOffset": {"a": {"0": 3}}, "latestOffset": {"a": {"0": 4}}}]}).total == 1


@pytest.mark.parametrize("progress", ["{", "[]", {"id": "x"}, None, 3])
def test_what_is_no_progress_is_told(progress):
    with pytest.raises(ConfigError, match="expected the progress of a streaming query"):
        lag(progress)
