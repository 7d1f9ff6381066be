"""Topics as Arrow, without Spark: tables, streams of record batches, and what pandas, Polars and DuckDB take.

The decoding of fetched record batches into Arrow is shared with `penstock.spark`.
"""
