"""Parse, print and compare Avro schemas as Avro's Java library does, on which Confluent's registry is built.

The parser is our own, because the two Python libraries lose details that a registry must keep. fastavro
rewrites names and drops attributes that it doesn't know. avro supports no forward names and reports neither
path nor position. avro's compatibility check also returns sets where we need messages in order. The tests
compare our results with both libraries and with the Java one.
"""
