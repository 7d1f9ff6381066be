"""The sink: writes DataFrames to topics, in batches or as a stream, at least once or exactly once.

The package holds what turns rows into record batches and delivers them; code that reads topics belongs in
`penstock.spark.source`.
"""
