"""Interactive queries under load: a million keys, updates and lookups at fixed rates.

The package holds the schedule, the writer and the readers, each as a process. The schedule and the measured
lookups also serve the benchmark of the SQL server.
"""
