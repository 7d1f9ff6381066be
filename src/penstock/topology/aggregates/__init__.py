"""Aggregates of grouped streams and tables, with and without windows.

Only operators that fold the records of one key into a row of a table belong here.
"""
