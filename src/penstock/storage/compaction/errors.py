"""The exception that ends a clean early."""


class CleaningAborted(Exception):
    """The log is being truncated, deleted or closed, or its config changed: discard what was cleaned."""
