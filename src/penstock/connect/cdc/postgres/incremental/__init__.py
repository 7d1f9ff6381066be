"""Snapshots that run beside the stream: incremental ones, chunk by chunk, and blocking ones, by signals.

`visibility` compares transactions with the moment of a chunk, `chunks` reads rows, `watermarks` moves the
stream on, and `companion` runs between the transactions of the stream, which calls it.
"""
