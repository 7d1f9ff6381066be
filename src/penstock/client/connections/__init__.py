"""Connections to the servers of a cluster: requests and responses, metadata, leaders, coordinators, retries.

What every client of Kafka needs before it reads or writes belongs here; single APIs do not.
"""
