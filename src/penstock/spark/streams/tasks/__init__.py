"""Tasks in a Spark worker process: the map side, the tasks behind the shuffle, and global tables.

The package holds what a process runs for a batch and keeps until the next one. It is independent of Spark's
interfaces for sources, operators and sinks, which call it from `penstock.spark.streams.query`.
"""
