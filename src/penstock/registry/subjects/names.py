"""Names of subjects in contexts: `subject`, `:.context:subject`, or `:.context:` for the context itself."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

DEFAULT_CONTEXT: Final = "."
GLOBAL_CONTEXT: Final = ".__GLOBAL"  # for configurations and modes that apply to all contexts
ALL_CONTEXTS: Final = ":*:"


class Name(NamedTuple):
    """A subject in a context; an empty subject stands for the context itself."""

    context: str
    subject: str

    @classmethod
    def of(cls, text: str) -> Self:
        if text.startswith(ALL_CONTEXTS):
            return cls("*", text[len(ALL_CONTEXTS) :])
        if not text.startswith(":."):
            return cls(DEFAULT_CONTEXT, text)
        context, _, subject = text[1:].partition(":")
        return cls(context, subject)

    @property
    def prefix(self) -> str:
        """The context as a prefix of a subject; empty for the default one."""
        return "" if self.context == DEFAULT_CONTEXT else f":{self.context}:"

    def __str__(self) -> str:
        return self.prefix + self.subject

    @property
    def is_qualified(self) -> bool:
        return self.context != DEFAULT_CONTEXT


def normalized(text: str) -> str:
    """Return the canonical form of a subject's name."""
    return str(Name.of(text))


def top_level_or(text: str | None) -> str | None:
    """Return the name, or None for the default context."""
    return None if text is None or Name.of(text) == (DEFAULT_CONTEXT, "") else normalized(text)


def context_of(subject: str | None) -> str:
    return DEFAULT_CONTEXT if subject is None else Name.of(subject).context


def beside(parent: str, subject: str) -> str:
    """Return the name of a subject that a schema or configuration of ``parent`` refers to.

    It is in the parent's context unless it names another.
    """
    name, context = Name.of(subject), context_of(parent)
    if name.is_qualified or context == DEFAULT_CONTEXT:
        return str(name)
    return str(Name(context, subject))


def covers(scope: str | None, subject: str) -> bool:
    """Whether a scope includes a subject: the subject itself, its context, or everything (None)."""
    if scope is None or scope == subject:
        return True
    name = Name.of(scope)
    return not name.subject and name.context in (GLOBAL_CONTEXT, context_of(subject))


def has_prefix(prefix: str, subject: str) -> bool:
    """Whether a list with this prefix includes a subject.

    `:*:` covers all contexts, and `:.c` the contexts that start with it.
    """
    name = Name.of(subject)
    if ALL_CONTEXTS in prefix:
        return name.subject.startswith(prefix.partition(ALL_CONTEXTS)[2])
    if prefix.startswith(":.") and ":" not in prefix[2:]:
        return name.context.startswith(prefix[1:])
    wanted = Name.of(prefix)
    return name.context == wanted.context and name.subject.startswith(wanted.subject)


def is_valid(text: str, *, for_settings: bool = False, allows_empty: bool = True) -> bool:
    """Whether the name is valid for a subject.

    ``for_settings`` also allows names that only have configurations and modes.
    """
    name = Name.of(text)
    if any(each < " " or "\x7f" <= each <= "\x9f" or "\ud800" <= each <= "\udfff" for each in text):
        return False  # no record can hold control characters or halves of surrogate pairs
    if name.subject in ("__GLOBAL", "__EMPTY"):
        return False
    if not allows_empty and name.subject in ("", "*"):
        return False
    return for_settings or name.context != GLOBAL_CONTEXT
