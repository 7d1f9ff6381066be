"""Blocks: many records as one binary value, which is the only form in which records move through a query.

The package holds the packing of records and the rows that carry blocks. Code that decides where a block goes
belongs in `penstock.spark.streams.planning`.
"""
