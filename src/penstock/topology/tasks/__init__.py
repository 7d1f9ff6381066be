"""Tasks: one sub-topology on one partition, and how it reads and computes its records.

Only what runs a topology belongs here; what a node computes belongs to the rooms of the operators.
"""
