"""Persistent queries while they run: the host that runs them, their views, statistics and failures.

`host` is the interface of a host, and `spark_host` the one that uses Spark. `runner` lets the host run what a
state holds. What starts or ends a query belongs in `penstock.sql.engine.changing`.
"""
