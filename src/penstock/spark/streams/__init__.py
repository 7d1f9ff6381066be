"""Runs a topology as one Spark query: packing, shuffle, the stateful operator, state log, changelogs,
restore.
"""
