"""Streams applications: run a topology as one Spark query.

The package holds what that needs in Spark: the packing of records, the shuffle, the stateful operator, the
state log, changelogs and restoring. How a topology is defined and what its tasks do belongs in
`penstock.topology`.
"""
