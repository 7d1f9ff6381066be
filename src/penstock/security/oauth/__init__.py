"""Where bearer tokens and the keys that verify them are fetched: files and HTTPS endpoints of an issuer.

`keys` follows an issuer's key set, and `validator` decides about tokens with it, for SASL and HTTP servers.
`login` has a client's own token, from `endpoint_tokens` or a file. All of them block, or have a thread of
their own: an event loop asks only `validator`, which never waits. URLs come from the process's own
configuration, and from nothing that anybody sends it.
"""
