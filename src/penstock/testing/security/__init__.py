"""The security of a test cluster: what a test describes, and the certificates, users and files made of it.

`description` has the classes that tests use. `secured` turns a description into an authority, passwords and
the properties of nodes, and `client_settings` into the settings of each Kafka client. Nothing here starts a
node.
"""
