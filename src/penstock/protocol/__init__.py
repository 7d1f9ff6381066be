"""Kafka's wire protocol and record formats, between bytes and Python objects.

The modules here define messages and encode or decode them, and read, check and build record batches. Code in
this package opens no sockets or log files, and imports no other part of Penstock, only
the root of its exceptions.
"""
