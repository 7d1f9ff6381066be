"""The config keys of the reference as text, one module per subject; see `definition` for the notation.

A module here holds nothing but a table.
"""
