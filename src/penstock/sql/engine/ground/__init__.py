"""The ground of the engine's rooms: errors and entities, configuration and properties, state and topics.

A module belongs here if several rooms need it. It imports no other room of the engine, and runs nothing.
"""
