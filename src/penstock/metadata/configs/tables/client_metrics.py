"""Client metrics subscriptions (KIP-714)."""

TABLE = """
metrics: list = ""
    Prefixes of the client metrics to collect; * means all.
interval.ms: int = 300000
    Pause between two pushes of client metrics.
match: list = ""
    Clients that push metrics, as property=pattern pairs.
"""
