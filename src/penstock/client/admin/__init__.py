"""Requests that administer a cluster: topics, configs, ACLs, replicas, the quorum, transactions.

One module wraps one group of Kafka's APIs; what needs several of them belongs to `operations`.
"""
