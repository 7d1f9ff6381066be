"""Reads the objects of a store: S3, Google Cloud Storage, Azure, or local files.

definition   its configuration keys
urls         the URL of a store, and the options of its client
stores       opens a store by its URL, lists it, and reads objects as streams
task         the task, which reads one object after the other
connector    the connector, which gives each task its share
"""

from penstock.connect.connectors.objects.connector import ObjectsSourceConnector

__all__ = ["ObjectsSourceConnector"]
