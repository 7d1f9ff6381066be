"""Which tables and columns are captured, and how values of columns are masked, by Debezium's lists. Pure."""
