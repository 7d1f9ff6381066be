"""Blocks: many records as one binary value, which is the only form in which records move through a query.

The package holds the packing of records, the rows that carry blocks, and how blocks are split by partition
and merged by time. What a query reads and writes is decided in `penstock.spark.streams.planning`.
"""
