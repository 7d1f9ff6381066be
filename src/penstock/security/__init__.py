"""Authorization and credentials: access control lists, the authorizer's decisions, SCRAM's arithmetic.

Only rules belong here, as Apache Kafka has them. This room is pure: it reads no metadata and opens no
connection. `broker` gives it the ACLs and asks it about each request.
"""
