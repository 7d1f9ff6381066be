"""The source: topics as DataFrames, in batches or as a stream, like Spark's own Kafka source.

It has that source's schema, options and offsets. The package holds what plans and reads ranges of topics; how
bytes become columns belongs in `penstock.arrow`.
"""
