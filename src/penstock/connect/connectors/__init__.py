"""Connectors that ship with Penstock, written with nothing but what users have.

file_stream   the lines of a file as records, and records as lines: Kafka's FileStreamSource and -Sink
"""
