"""The demo: a year of real flights through a streams application, and a check that the result is right.

The package holds the application, its input, its processes, the display and the check. `capture` is another
demo, of change data capture. Only `penstock.cli` may depend on them.
"""
