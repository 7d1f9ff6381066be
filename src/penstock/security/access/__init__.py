"""Access to HTTP servers: who a client is, and in which role.

All servers share this room: the schema registry, the SQL server, the servers of views and a node's port for
metrics. `settings` holds their configs, `users` reads the file of users, and `access` decides about the
credentials of a request: a password, a certificate or a token. `roles` are what an identity may do; each
server has a table of the role that each of its requests needs. `exposure` warns of listeners without
authentication. The room answers no request.
"""
