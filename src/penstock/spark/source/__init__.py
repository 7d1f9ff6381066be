"""Topics as DataFrames, batch and streaming, with the schema and the options of Spark's own Kafka source."""
