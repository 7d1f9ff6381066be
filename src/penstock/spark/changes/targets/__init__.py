"""Tables that changes are applied to: what they must do (`table`), and those of Delta, Iceberg and functions.

What enters here knows edits and table formats; which edit a batch of changes makes is decided outside.
"""
