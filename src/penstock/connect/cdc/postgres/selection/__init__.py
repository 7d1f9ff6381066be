"""Which schemas, tables, columns and messages are captured. Pure."""
