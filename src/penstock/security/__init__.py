"""Authorization: access control lists, and the decisions of the authorizer.

Only rules belong here, as Apache Kafka's StandardAuthorizer has them. This room is pure: it reads no metadata
and opens no connection. `broker` gives it the ACLs and asks it about each request.
"""
