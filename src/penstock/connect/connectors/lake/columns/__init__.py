"""Records as Arrow: the types of schemas, the arrays of values, and schemas of values that have none.

Nothing here knows a file or a table format, except for the choice of types that a format has.
"""
