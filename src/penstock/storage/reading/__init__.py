"""Reads a log: positions by offset and by time, checks of cold slices, reads past the page cache.

Only what never changes a log belongs here. Most of it may run in any thread.
"""
