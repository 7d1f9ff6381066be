"""A small synchronous Kafka client, used by the brokers among themselves and by Spark's readers and writers.

It depends on `penstock.protocol` alone and moves whole record batches; it never makes an object per record.
Each module wraps one group of Kafka's APIs; code for one particular server or command does not belong here.
"""
