"""The SQL server under load: the records its queries read a second, and how long rows take through them.

The package holds a module for each measured part, and what they share: the server, its orders, the report.
"""
