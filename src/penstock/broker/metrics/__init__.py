"""The node's Prometheus metrics and the HTTP endpoint that serves them.

Code enters this room if it reads the node's parts for a metric. The parts count in plain integers, and know
nothing of Prometheus.
"""
