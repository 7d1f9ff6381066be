"""The reasons why another node did not answer. Errors within an answer are in its error codes."""


class PeerError(Exception):
    """The node did not answer. The request may or may not have had an effect there."""


class PeerUnreachable(PeerError):
    """There is no connection: it could not be made, or was lost before the answer."""


class PeerTimedOut(PeerError):
    """The node did not answer within the timeout."""


class PeerViolation(PeerError):
    """The other node violates the protocol, or does not serve the required API."""
