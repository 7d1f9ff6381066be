"""How connections are secured: TLS, SASL, and their settings.

Only what decides whom a client trusts, and as whom it appears, belongs here; it opens no connection.
"""
