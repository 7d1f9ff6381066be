"""Reads topics: offsets of partitions, ranges of records, and partitions that grow.

Readers return whole record batches; what decodes records stands above this floor.
"""
