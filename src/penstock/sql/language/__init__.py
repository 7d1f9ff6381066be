"""The language of ksqlDB: its words and types, the trees of its statements, and their printing.

What is about a text or a tree belongs here. Parsers, which turn a text into trees, stand in `parsing`. What
the names in a statement stand for belongs in `penstock.sql.catalog` and `penstock.sql.analysis`.
"""
