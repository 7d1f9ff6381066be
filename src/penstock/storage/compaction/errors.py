"""How a clean may end early."""


class CleaningAborted(Exception):
    """The log is to be truncated, deleted or closed, or compacted otherwise: what was cleaned is dropped."""
