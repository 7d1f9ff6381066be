"""A sink into files of object stores: S3, Google Cloud Storage, Azure, or a folder.

places/   the folder of a record's file, by its partition, fields or time
"""

from penstock.extras import needs_extra

with needs_extra("objects", "the sink of object stores"):
    from penstock.connect.connectors.lake.objects.connector import ObjectsSinkConnector, ObjectsSinkTask

__all__ = ["ObjectsSinkConnector", "ObjectsSinkTask"]
