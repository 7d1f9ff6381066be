"""Applications from outside: start one, follow it while it runs, stop it, and reset it to its beginning.

The package holds what the driver does before and after batches: topics, the group's first offsets, the
application that a checkpoint belongs to, and the reason of a failure.
"""
