"""SASL of a node's listeners: the authentication of each connection, and the users that it knows."""
