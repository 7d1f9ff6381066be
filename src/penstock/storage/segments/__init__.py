"""One segment of a log: its `.log` file, the indexes beside it, and slices of it for readers.

Only what concerns a single segment, or the list of them, belongs here; `partition` decides when a log rolls,
is truncated or deletes segments.
"""
