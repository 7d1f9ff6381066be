"""What an operator does to a running cluster: move partitions, balance brokers, raise replication.

Plans are pure: from a picture of the cluster to new lists of replicas. Carrying them out speaks the client's
calls, so it works on any cluster that speaks the protocol.
"""
