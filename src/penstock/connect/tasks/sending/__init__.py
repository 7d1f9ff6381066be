"""Sends the records of tasks: in batches, on a thread of their own or in transactions.

Nothing here knows tasks, connectors or converters: records are bytes, and each has a `Delivery` that gets its
outcome.
"""
