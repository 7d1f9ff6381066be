"""The clients of tasks: connectors may override their keys, such as `producer.override.linger.ms`.

The definitions give the types of values and what validation shows. The clients themselves check the values.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Final

from penstock.connect.configs.key_table import define_table
from penstock.connect.configs.tables import clients, security
from penstock.connect.definitions.config_def import ConfigDef, ConfigType


class ClientType(Enum):
    """The clients of tasks; the value is the prefix of their keys in connectors' configurations."""

    PRODUCER = "producer.override."
    CONSUMER = "consumer.override."
    ADMIN = "admin.override."


TABLES: Final = {
    ClientType.PRODUCER: clients.PRODUCER,
    ClientType.CONSUMER: clients.CONSUMER,
    ClientType.ADMIN: clients.ADMIN,
}
ASSIGNORS: Final = [
    "class org.apache.kafka.clients.consumer.RangeAssignor",
    "class org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
]
"""The default of `partition.assignment.strategy`: classes, which Kafka prints like this."""


@cache
def client_definition(client: ClientType) -> ConfigDef:
    """The keys of one client."""
    definition = ConfigDef()
    for table in (TABLES[client], clients.ALL, security.SSL, security.SASL):
        define_table(definition, table)
    if client is ClientType.CONSUMER:
        doc = "How the partitions of topics are shared, in order of preference."
        definition.define("partition.assignment.strategy", ConfigType.LIST, ASSIGNORS, doc=doc)
    return definition
