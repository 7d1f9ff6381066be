"""Kerberos for SASL/GSSAPI: names of principals, login settings, and the contexts of the system's libkrb5.

`names` and `short_names` are pure, and `settings` reads JAAS. Only `contexts` uses the package ``gssapi`` of
the extra ``kerberos``. An initiator blocks while it talks to a KDC; an acceptor only reads local files.
"""
