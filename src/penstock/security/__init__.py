"""Authorization and credentials: ACLs and the authorizer's decisions, SCRAM, logins, keys and certificates.

Rules belong here, as Apache Kafka has them, and what reads keys and secrets from files. Nothing here reads
metadata or opens a connection. `broker` gives it the ACLs and asks it about each request.
"""
