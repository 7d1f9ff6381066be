"""Clients as coroutines that speak Kafka's protocol over the simulated network.

They retry until they have an answer and record in the history what they saw. Each module holds one kind of
client.
"""
