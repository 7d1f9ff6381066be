"""Stores partitions on disk in Kafka's formats: logs of segments, their indexes, and producer state.

Only the code that reads and writes files in log directories belongs here: append and read, recovery,
retention, compaction and checkpoints. It knows neither the network nor the cluster; the broker decides what
to append and passes in clocks, configs and high watermarks.

The rooms, from below; each imports only those before it:

    disk          system calls, the page cache, checkpoint files
    segments      one segment and its indexes
    producers     the state of idempotent and transactional producers
    reading       finds, reads and checks slices of segments
    partition     the log of one partition
    compaction    keeps the newest record of each key
    directories   the log directories of a node, and the manager of all logs

`inspection` reads directories without a node, for `penstock log`.

**Asserts** state what must hold after a change, such as a roll, a truncation or the swap of segments. They
cost a few comparisons there, and none runs per batch, so they stay enabled in production. `python -O` removes
them, and nothing depends on them: what a damaged disk or a client can cause raises an exception instead.
"""
