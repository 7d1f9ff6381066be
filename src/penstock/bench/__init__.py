"""Measures a broker from outside, with a client so lean that the client is not what is measured."""
