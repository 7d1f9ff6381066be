"""The coordinators of groups and transactions: state machines without I/O.

Each coordinator owns one partition of an internal topic. It decides on requests and timers, returns the
records to append, and changes its state by replaying records. Code enters this package if it takes part in
such decisions, or helps all coordinators; code that reads sockets, logs or clocks belongs to the broker.
"""
