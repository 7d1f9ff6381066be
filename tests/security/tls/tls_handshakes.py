"""TLS handshakes in memory."""

import ssl

ENDLESS = 20
"""More rounds than any handshake takes."""


def handshake(
    server: ssl.SSLContext,
    client: ssl.SSLContext,
    host: str | None = None,
    session: ssl.SSLSession | None = None,
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both sides of a handshake, the server's first. Raises SSLError as soon as one side refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=host, session=session),
    )
    waiting = [sides[1], sides[0]]
    for _ in range(ENDLESS):
        for side in tuple(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
    assert waiting == []
    return sides
