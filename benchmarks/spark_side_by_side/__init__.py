"""The same Spark queries through Penstock's source and sink and through Spark's own Kafka connector."""
