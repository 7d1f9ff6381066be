"""How a clean may end early."""


class CleaningAborted(Exception):
    """The log is to be truncated, is deleted or closed: what was cleaned of it is dropped."""
