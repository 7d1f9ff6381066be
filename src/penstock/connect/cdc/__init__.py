"""Change data capture: databases whose changes become records of topics, in the shape of Debezium's.

One room per database: `postgres`.
"""
