"""State of tasks beyond a batch: stores as logs of segments, and the times that are kept beside changelogs.

The package holds the formats that checkpoints and consumer groups contain, which later versions must be able
to read, and the fast access to Spark's state store.
"""
