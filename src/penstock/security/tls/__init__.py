"""TLS of listeners and clients, all but the sockets, under Kafka's configuration names.

`settings` holds the configs, `stores` reads the keys and certificates that they name, `contexts` builds
contexts of Python's `ssl` from them, and `replacement` decides whether a running listener may change to other
stores. `principals` turns the name in a client's certificate into the principal that the authorizer knows.
The room opens no connection; it reads files of certificates.
"""
