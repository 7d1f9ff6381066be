"""Read topics as Arrow without Spark: tables, streams of record batches, pandas, Polars and DuckDB.

The package decodes fetched record batches into Arrow and encodes columns into keys and values;
`penstock.spark` uses it too. Code that needs Spark does not belong here.
"""
