"""Operations on a running cluster: move partitions, balance brokers, raise replication.

Plans are pure functions from the cluster's state to new lists of replicas. They are carried out through
`penstock.client`, so they work on any cluster that speaks the protocol. Commands and their output belong in
`penstock.cli`.
"""
