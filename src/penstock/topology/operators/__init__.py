"""Operators on single records and on the changes of tables: stateless ones, tables, suppression, user code.

Joins and aggregates have rooms of their own, which stand on this one.
"""
