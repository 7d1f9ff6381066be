"""The state of a log's idempotent and transactional producers, in memory and as snapshots on disk.

Only what validates and remembers batches of producers belongs here; it does not read the log itself.
"""
