"""Connectors for local files.

source   reads files and directories: complete files in many formats, and logs that grow and rotate
sink     writes files whose names say which records they have
"""

from penstock.connect.connectors.files.sink.connector import FilesSinkConnector
from penstock.connect.connectors.files.source.connector import FilesSourceConnector

__all__ = ["FilesSinkConnector", "FilesSourceConnector"]
