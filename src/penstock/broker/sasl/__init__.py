"""SASL of a node's listeners: each connection's authentication, and the users and tokens that it knows."""
