"""A small synchronous Kafka client: brokers to brokers, and Spark's readers and writers to brokers.

It stands on `penstock.protocol` alone and moves whole record batches; it never makes an object per record.
"""
