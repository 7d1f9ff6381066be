"""The HTTP sink: `definition` has its keys, `requests` makes requests of records, `task` sends them."""

from penstock.connect.connectors.http.sink.task import HttpSinkConnector, HttpSinkTask

__all__ = ["HttpSinkConnector", "HttpSinkTask"]
