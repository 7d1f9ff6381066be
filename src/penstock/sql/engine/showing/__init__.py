"""Answers about the service itself: SHOW, DESCRIBE, ASSERT, and the lags of its stores.

What only looks up the state, the topics or the running queries belongs here. Nothing here changes them.
"""
