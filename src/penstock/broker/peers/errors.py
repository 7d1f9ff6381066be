"""Why another node did not answer. What an answer itself complains of is in its error codes."""


class PeerError(Exception):
    """No answer. Whether the request had an effect there cannot be told."""


class PeerUnreachable(PeerError):
    """There is no connection: it could not be made, or was lost before the answer."""


class PeerTimedOut(PeerError):
    """No answer within the time given."""


class PeerViolation(PeerError):
    """The other side does not speak as it should, or not the API that is needed."""
