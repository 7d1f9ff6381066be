"""Reaches the disk: system calls, write-back, the page cache, buffers of direct reads, checkpoint files.

Only what knows files, but not what a log is, belongs here. All writes of storage go through `files`.
"""
