"""DataFrames to topics, batch and streaming, at least once."""
