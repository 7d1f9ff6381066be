"""The log of one partition: append, roll, truncation, retention, flushes and recovery.

Only what knows a whole log, but no other log, belongs here: how it changes, and the files that its directory
holds beside the segments.
"""
