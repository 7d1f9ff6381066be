"""Joins: of streams within a window, of streams and tables with tables, and by a foreign key.

Only operators that bring the records of two inputs together belong here.
"""
