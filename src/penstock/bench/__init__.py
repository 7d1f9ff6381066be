"""Measures a broker from outside, with a load generator in C that is fast enough not to limit the results.

The package holds the load generator, the rows of the benchmark, and the measurement of processes.
"""
