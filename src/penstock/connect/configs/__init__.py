"""The keys of workers and connectors, one by one as Apache Kafka Connect 4.3.1 has them.

    worker          a worker, distributed or standalone
    connector       what every connector has
    source, sink    what sources and sinks have besides
    topic_creation  the settings of topics that a source creates
    clients         the producer, consumer and admin client, whose keys connectors may override
    tables/         the keys of workers and clients, with their documentation

Reading values is left to those that need them: a definition parses a configuration to a dictionary.
"""

from penstock.connect.configs.sink import sink_definition
from penstock.connect.configs.source import source_definition
from penstock.connect.configs.worker import distributed_definition, parse_distributed, standalone_definition

__all__ = [
    "distributed_definition",
    "parse_distributed",
    "sink_definition",
    "source_definition",
    "standalone_definition",
]
