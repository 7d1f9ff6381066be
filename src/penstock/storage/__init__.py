"""Stores partitions on disk in Kafka's formats: logs of segments, their indexes, and producer state.

Only the code that reads and writes files in log directories belongs here: append and read, recovery,
retention, compaction and checkpoints. It knows neither the network nor the cluster; the broker decides what
to append and passes in clocks, configs and high watermarks.
"""
