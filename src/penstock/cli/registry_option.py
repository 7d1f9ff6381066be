"""The option `--registry`, apart from the client that it needs, so that other commands start without it."""

from typing import Annotated, Final

import typer

DEFAULT_URL: Final = "http://127.0.0.1:8081"

Url = Annotated[
    str,
    typer.Option(
        "--registry",
        envvar="PENSTOCK_REGISTRY",
        metavar="URL|FILE",
        help="The schema registry, or a file with the properties of its clients (docs/schemas.md).",
    ),
]
