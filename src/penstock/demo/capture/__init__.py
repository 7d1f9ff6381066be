"""The demo of change data capture: a PostgreSQL database under a storm of changes, and three copies of it.

`postgres` runs the server, `storm` changes its rows, `copies` reads the topics, the SQL view and the Delta
tables, and `run` starts all of it, kills parts of it, and compares. Only `penstock.cli` may depend on it.
"""
