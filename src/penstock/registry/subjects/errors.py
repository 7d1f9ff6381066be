"""The errors of refused requests, with Confluent's error codes."""

from __future__ import annotations

from typing import NoReturn


class RequestRefused(Exception):
    """The answer to a refused request: `{"error_code": …, "message": …}` with an HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status: the first three digits of the code."""
        return self.code if self.code < 1000 else self.code // 100

    def __str__(self) -> str:
        return f"{self.message} (error {self.code})"


def subject_not_found(subject: str | None) -> NoReturn:
    raise RequestRefused(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> NoReturn:
    raise RequestRefused(40402, f"Version {version} not found.")


def schema_not_found(what: int | str | None = None) -> NoReturn:
    raise RequestRefused(40403, "Schema not found" if what is None else f"Schema {what} not found")


def subject_soft_deleted(subject: str) -> NoReturn:
    raise RequestRefused(
        40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    )


def subject_not_soft_deleted(subject: str) -> NoReturn:
    raise RequestRefused(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> NoReturn:
    raise RequestRefused(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> NoReturn:
    raise RequestRefused(
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted",
    )


def compatibility_not_configured(subject: str | None) -> NoReturn:
    raise RequestRefused(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_configured(subject: str | None) -> NoReturn:
    raise RequestRefused(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, messages: list[str]) -> NoReturn:
    raise RequestRefused(
        40901,
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: [{", ".join(messages)}]',
    )


def invalid_schema(message: str) -> NoReturn:
    raise RequestRefused(42201, message)


def invalid_version(version: str) -> NoReturn:
    raise RequestRefused(
        42202,
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )


def invalid_mode(message: str | None = None) -> NoReturn:
    raise RequestRefused(
        42204, message or "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD."
    )


def not_permitted(message: str) -> NoReturn:
    raise RequestRefused(42205, message)


def referred_to(schema: object) -> NoReturn:
    raise RequestRefused(42206, f"One or more references exist to the schema {schema}.")


def invalid_subject(subject: str) -> NoReturn:
    raise RequestRefused(42208, f"The specified subject '{subject}' is not a valid.")


def too_large() -> NoReturn:
    raise RequestRefused(42209, "Register operation failed because schema is too large")


def context_not_empty(context: str) -> NoReturn:
    raise RequestRefused(42211, f"The specified context '{context}' is not empty.")
