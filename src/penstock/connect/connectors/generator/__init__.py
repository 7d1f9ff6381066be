"""Generates records, as Confluent's Datagen does, and so that a restart goes on with the same ones.

definition   the configuration keys of Datagen
quickstarts  schemas that have a name
values       random values of a schema, by its `arg.properties`
texts        random texts, also by regular expressions
task         the task, whose offset is the number of the next record
connector    the connector
"""

from penstock.connect.connectors.generator.connector import DatagenConnector

__all__ = ["DatagenConnector"]
