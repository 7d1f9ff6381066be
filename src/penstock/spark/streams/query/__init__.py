"""The query of an application as Spark sees it: the source, the stateful operator, the sink and the session.

The package holds implementations of Spark's interfaces, and what puts them together to one query. The records
themselves are processed in `penstock.spark.streams.tasks`.
"""
