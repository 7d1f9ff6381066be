"""SASL on both sides: bytes in, bytes out; pure.

`jaas` reads login settings in Kafka's syntax, `clients` has the client's side of all mechanisms, `plain`,
`scram` and `oauthbearer` the server's, and `server` what these share.
"""
