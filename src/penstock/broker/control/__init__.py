"""The node and the active controller: its loop, forwarding to it, the broker's lifecycle, the image.

Code enters this room if it decides for the cluster (then the decision itself is in `metadata.controller`),
asks the active controller, or follows the metadata log.
"""
