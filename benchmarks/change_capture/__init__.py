"""Change capture beside Debezium: changes per CPU second, from the slot to the bytes of topics."""
