"""Avro: schemas as Avro's Java library parses and prints them, which Confluent's registry stands on.

The parser is our own. The two in Python lose what a registry must keep: fastavro rewrites names and drops
what it doesn't know, avro's has no forward names and tells neither path nor position; and avro's check of
compatibility has sets where messages are wanted in order. Both libraries are oracles in the tests, as is
the Java one.
"""
