"""The same Spark queries through Penstock's source and sink and through Spark's own Kafka connector.

The package holds the rows, their queries, the two sides and the report. A query may depend on its side only
by the name of a format.
"""
