"""Penstock and Apache Kafka side by side: the same rows, machine, disk and clients, one broker at a time.

The package holds the rows, their workloads, the brokers and the report, for one node and for three.
Measurements of Spark or SQL belong in the packages beside it.
"""
