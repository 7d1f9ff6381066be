"""One module for each Kafka API that a node serves, which ends with its entry in the table (`api_entry`).

A module's docstring names the API with its key and the versions served, and lists the differences from Kafka
and what each version changed. `handle` answers on a broker's listener and `handle_as_controller` on a
controller's. Code enters this package if it translates between one API's messages and the parts of the node
that do the work. A handler takes the part that it needs; if it needs several, a Protocol beside it names
them.
"""
