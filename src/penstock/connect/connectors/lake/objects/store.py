"""Opens the store that a configuration names, and sorts its errors into those that may pass and others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from penstock.connect.errors import ConfigInvalid, ConnectError, RetriableError
from penstock.extras import needs_extra

if TYPE_CHECKING:
    from obstore.store import ObjectStore

OPTION: Final = "store.option."
"""Begins the names of settings that obstore gets as they are, such as ``store.option.endpoint``."""

_NO_BUCKET: Final = (
    "<Code>NoSuchBucket</Code>",
    "<Code>ContainerNotFound</Code>",
    "The specified bucket does not exist",
)
"""Parts of the answers of S3, Azure and Google Cloud Storage where there is no bucket."""


def open_store(config: Mapping[str, Any]) -> ObjectStore:
    """Return the store. Raises MissingExtra, or ConfigInvalid for a store that is not described fully.

    ``store.url`` is the place itself (s3://, gs://, az://, file://), or the endpoint of an S3 bucket that
    ``s3.bucket.name`` names.
    """
    with needs_extra("objects", "the sink of object stores"):
        from obstore.exceptions import BaseError
        from obstore.store import LocalStore, from_url
    bucket, url = config["s3.bucket.name"], config["store.url"]
    is_endpoint = urlsplit(url or "").scheme in ("http", "https")
    if url is None or is_endpoint:
        if not bucket:
            raise ConfigInvalid(
                "the store is not known: expected s3.bucket.name, or store.url=s3://bucket/folder"
            )
        place = f"s3://{bucket}"
    else:
        place = url
    if urlsplit(place).scheme == "file":
        return LocalStore(Path(unquote(urlsplit(place).path)), mkdir=True)
    options = {name[len(OPTION) :]: str(value) for name, value in config.items() if name.startswith(OPTION)}
    if urlsplit(place).scheme in ("s3", "s3a"):
        options = {**_s3_options(config, url if is_endpoint else None), **options}
    endpoint = options.get("endpoint", "")
    try:
        return from_url(
            place,
            config=options,
            client_options={"allow_http": True} if endpoint.startswith("http:") else None,
        )
    except (BaseError, ValueError) as error:
        raise ConfigInvalid(f"the store {place} cannot be opened: {error}") from error


def _s3_options(config: Mapping[str, Any], endpoint: str | None) -> dict[str, str]:
    """Return the settings of Confluent's sink as obstore's, which finds other credentials by itself."""
    options = {"region": config["s3.region"]}
    if endpoint is not None:
        options |= {"endpoint": endpoint}
    options["virtual_hosted_style_request"] = str(not config["s3.path.style.access.enabled"]).lower()
    if config["aws.access.key.id"]:
        options |= {
            "access_key_id": config["aws.access.key.id"],
            "secret_access_key": config["aws.secret.access.key"].value,
        }
    return options


@contextmanager
def sorted_errors(path: str) -> Iterator[None]:
    """Raise RetriableError for errors that may pass, and ConnectError for those that stay."""
    from obstore.exceptions import (
        BaseError,
        InvalidPathError,
        NotFoundError,
        NotSupportedError,
        PermissionDeniedError,
        UnauthenticatedError,
    )

    try:
        yield
    except (
        InvalidPathError,
        NotSupportedError,
        NotFoundError,
        PermissionDeniedError,
        UnauthenticatedError,
    ) as error:
        raise ConnectError(f"the file {path} cannot be stored: {error}") from error
    except (BaseError, OSError) as error:
        if any(code in str(error) for code in _NO_BUCKET):  # obstore has no class for it
            raise ConnectError(
                f"the file {path} cannot be stored, its bucket does not exist: {error}"
            ) from error
        raise RetriableError(f"the file {path} was not stored: {error}") from error
