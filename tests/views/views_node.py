"""One node of the views of `counting_app`: ``views_node.py SERVERS NAME TOPIC STANDBYS SESSION_MS``."""

from __future__ import annotations

import sys

from views_cluster import counting_app

from penstock.views.server import ViewServer


def main() -> None:
    servers, name, topic, standbys, session_ms = sys.argv[1:]
    server = ViewServer(
        counting_app(name, topic).topology(),
        bootstrap_servers=servers,
        port=0,
        standbys=int(standbys),
        session_timeout_ms=int(session_ms),
    )
    print(server.endpoint, flush=True)
    server.run()


if __name__ == "__main__":
    main()
