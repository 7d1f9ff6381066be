"""Quotas of clients: which limit applies to a client, and how fast it may change the cluster's topics."""
