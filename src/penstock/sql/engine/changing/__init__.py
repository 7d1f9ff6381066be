"""Statements that change something: they become commands in the command topic, and are applied from there.

What prepares, logs and applies such a statement belongs here, as do the topics and schemas that it creates
and deletes. Inserted rows change a topic without a command, and belong here too.
"""
