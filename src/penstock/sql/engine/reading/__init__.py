"""SELECT and PRINT: pull queries over views, push queries over topics that all readers share, and results.

`selector` chooses how a statement is answered. What reads rows for a client belongs here; what describes the
service itself belongs in `penstock.sql.engine.showing`.
"""
