"""Clients as coroutines: they speak Kafka's protocol over the made-up network, repeat, tell what they saw."""
