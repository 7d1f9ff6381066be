"""The folders of records' files, as Confluent's partitioners name them, and the times that choose them.

Nothing here writes a file.
"""
