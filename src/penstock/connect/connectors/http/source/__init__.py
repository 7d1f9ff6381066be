"""The HTTP source: polls an API page by page and makes a record of each item.

definition   the keys
items        the items of an answer, with the values that offsets are made of
paging       which page follows an answer
progress     how far the source has read, as offsets keep it
asking       the requests
task         the task that puts these together, and the connector
"""

from penstock.connect.connectors.http.source.task import HttpSourceConnector, HttpSourceTask

__all__ = ["HttpSourceConnector", "HttpSourceTask"]
