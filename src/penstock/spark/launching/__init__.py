"""Launching Spark: find Java, build sessions, send this package to executors, start containers.

The package holds what runs before a query does: settings of sessions with the profiles that group them, the
launchers of Java and of the workers' Python, and the archive for executors. Code that runs in a query belongs
in the rooms of the source, the sink and the applications.
"""
