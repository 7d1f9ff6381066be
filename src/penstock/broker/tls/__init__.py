"""TLS of a node's connections: sockets that encrypt, handshakes, and the certificates of each listener."""
