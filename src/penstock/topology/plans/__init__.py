"""Plans of topologies: their description, their picture, and the part that produces one node's records.

Only what reads a whole topology, but does not run it, belongs here.
"""
