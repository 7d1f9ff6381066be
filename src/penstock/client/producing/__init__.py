"""Writes to topics: whole record batches, in order, without duplicates and in transactions.

What encodes records stands above this floor.
"""
