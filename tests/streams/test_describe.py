"""The plan as text and as a diagram."""

from __future__ import annotations

from penstock.streams import App, json, string

# As Apache Kafka's documentation prints it for its word count
WORD_COUNT = """\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [streams-plaintext-input])
      --> KSTREAM-FLATMAPVALUES-0000000001
    Processor: KSTREAM-FLATMAPVALUES-0000000001 (stores: [])
      --> KSTREAM-KEY-SELECT-0000000002
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-KEY-SELECT-0000000002 (stores: [])
      --> counts-repartition-filter
      <-- KSTREAM-FLATMAPVALUES-0000000001
    Processor: counts-repartition-filter (stores: [])
      --> counts-repartition-sink
      <-- KSTREAM-KEY-SELECT-0000000002
    Sink: counts-repartition-sink (topic: counts-repartition)
      <-- counts-repartition-filter

  Sub-topology: 1
    Source: counts-repartition-source (topics: [counts-repartition])
      --> KSTREAM-AGGREGATE-0000000003
    Processor: KSTREAM-AGGREGATE-0000000003 (stores: [counts])
      --> KTABLE-TOSTREAM-0000000007
      <-- counts-repartition-source
    Processor: KTABLE-TOSTREAM-0000000007 (stores: [])
      --> KSTREAM-SINK-0000000008
      <-- KSTREAM-AGGREGATE-0000000003
    Sink: KSTREAM-SINK-0000000008 (topic: streams-wordcount-output)
      <-- KTABLE-TOSTREAM-0000000007

"""


def _word_count() -> App:
    app = App("wordcount", key=string, value=string)
    words = app.stream("streams-plaintext-input").flat_map_values(str.split)
    counts = words.group_by(lambda k, word: word).count(store="counts")
    counts.to_stream().to("streams-wordcount-output")
    return app


def test_the_text_has_the_format_of_kafka_streams() -> None:
    assert _word_count().describe() == WORD_COUNT


def test_the_picture_has_every_node_topic_and_store() -> None:
    app = _word_count()
    picture = app.mermaid()
    assert picture.startswith("flowchart TD\n")
    for name in [*app.topology().nodes, "counts", "streams-plaintext-input", "wordcount-counts-repartition"]:
        assert f'"{name}"' in picture
    boxes = {line.split("[")[0].strip() for line in picture.splitlines() if "[" in line}
    for line in picture.splitlines():
        for arrow in (" --> ", " ==> ", " -.- "):
            if arrow in line:
                assert set(map(str.strip, line.split(arrow))) <= boxes


def test_a_global_table_has_a_number_and_no_tasks() -> None:
    """The text is the one of Apache Kafka Streams 4.3."""
    app = App("app", key=string, value=string)
    app.global_table("cities")
    app.stream("in").to("out")
    assert (
        app.describe()
        == """\
Topologies:
   Sub-topology: 0 for global store (will not generate tasks)
    Source: KSTREAM-SOURCE-0000000001 (topics: [cities])
      --> KTABLE-SOURCE-0000000002
    Processor: KTABLE-SOURCE-0000000002 (stores: [cities-STATE-STORE-0000000000])
      --> none
      <-- KSTREAM-SOURCE-0000000001
  Sub-topology: 1
    Source: KSTREAM-SOURCE-0000000003 (topics: [in])
      --> KSTREAM-SINK-0000000004
    Sink: KSTREAM-SINK-0000000004 (topic: out)
      <-- KSTREAM-SOURCE-0000000003

"""
    )
    assert [part.id for part in app.topology().sub_topologies] == [1]


def test_the_picture_shows_global_tables_and_functions_that_choose() -> None:
    app = App("app", key=string, value=json)
    app.global_table("cities", store="all-cities")
    app.stream("in").to(lambda key, value, record: str(value))
    picture = app.mermaid()
    assert '"all-cities, on every worker"' in picture
    assert '"chosen by a function"' in picture
