"""Bearer tokens: JSON Web Tokens (RFC 7519), the keys that verify them, and the rules that accept them; pure.

`keys` reads key sets, `validation` decides about signed tokens, and `unsecured` about tokens without a
signature, which only tests use. The room `oauth` fetches keys and tokens.
"""
