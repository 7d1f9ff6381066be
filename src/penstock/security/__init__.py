"""Authorization and credentials: ACLs and the authorizer's decisions, SCRAM, logins, tokens, certificates.

Rules belong here, as Apache Kafka has them, and what reads keys and secrets from files. Nothing here reads
metadata. Only `oauth` opens connections: it fetches tokens, and the keys that verify them. `broker` gives
this room the ACLs and asks it about each request.
"""
