"""Stages of an application as DataFrames, each of which is a query of its own that writes to no topic.

The package holds the plan of the nodes above a stage, and the typed columns that serdes determine.
"""
