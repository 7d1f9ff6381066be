"""The `penstock` command: one module per command, which parses options, calls the package and prints results.

Only terminal input and output belong here; what a command does lives in the package that it calls.
"""
