"""The state that operations decide on: the image, the settings, and what both mean for a subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from penstock.registry.subjects.configs import Config
from penstock.registry.subjects.errors import not_permitted
from penstock.registry.subjects.image import Image
from penstock.registry.subjects.names import GLOBAL_CONTEXT, Name
from penstock.registry.subjects.schemas import Parser
from penstock.registry.subjects.settings import Settings

_EVERYWHERE = str(Name(GLOBAL_CONTEXT, ""))


@dataclass(frozen=True, slots=True)
class State:
    """An image with its settings and a parser of its schemas."""

    image: Image
    settings: Settings
    parser: Parser

    @classmethod
    def empty(cls, settings: Settings) -> Self:
        image = Image()
        return cls(image, settings, Parser(image, settings.schema_bytes_max))

    def limited_to(self, prefixes: tuple[str, ...]) -> State:
        """Return the state in which only the subjects exist whose names begin with one of the prefixes."""
        image = self.image.limited_to(prefixes)
        return State(image, self.settings, Parser(image, self.settings.schema_bytes_max))

    # Configurations and modes apply to a subject. If it has none, those of its context apply (the top level
    # is that of the default context), and then those of all contexts.

    def own_config(self, subject: str | None) -> Config | None:
        found = self.image.configs.get(subject)
        if found is None and not _is_top(subject):
            return None
        return (found or Config()).with_level(self.settings.compatibility_level)

    def config(self, subject: str | None) -> Config:
        """Return the configuration that applies to a subject."""
        own = self.own_config(subject) if subject is not None else None
        if own is not None:
            return own.over(self._top_config())
        for scope in (subject, _context(subject), _EVERYWHERE):
            found = self.image.configs.get(scope)
            if found is not None:
                return found.with_level(self.settings.compatibility_level)
        return Config(compatibilityLevel=self.settings.compatibility_level)

    def _top_config(self) -> Config:
        return self.image.configs.get(None, Config()).with_level(self.settings.compatibility_level)

    def validates_fields(self, config: Config) -> bool:
        return self.settings.validates_fields if config.validateFields is None else config.validateFields

    def validates_new_schemas(self, config: Config) -> bool:
        said = config.validateNewSchemas
        return self.settings.validates_new_schemas if said is None else said

    def own_mode(self, subject: str | None) -> str | None:
        return self.image.modes.get(subject, self.settings.mode if _is_top(subject) else None)

    def mode(self, subject: str | None) -> str:
        """Return the mode that applies to a subject."""
        for scope in (subject, _context(subject), _EVERYWHERE):
            if scope in self.image.modes:
                return self.image.modes[scope]
        return self.settings.mode

    def takes_what_it_is_given(self, subject: str) -> bool:
        """Whether requests choose ids and versions, and schemas are not validated."""
        return self.mode(subject) in ("IMPORT", "FORWARD")

    def check_writable(self, subject: str | None) -> None:
        if self.mode(subject) in ("READONLY", "READONLY_OVERRIDE"):
            not_permitted(
                f"Subject {_shown(subject)} in context {shown_context(subject)} is in read-only mode"
            )


def shown_context(subject: str | None) -> str:
    """The context as messages show it; empty for the default one."""
    return "" if subject is None else Name.of(subject).prefix


def _shown(subject: str | None) -> str:
    return "null" if subject is None else subject


def _context(subject: str | None) -> str | None:
    prefix = "" if subject is None else Name.of(subject).prefix
    return prefix or None


def _is_top(subject: str | None) -> bool:
    return subject is None or Name.of(subject).context == GLOBAL_CONTEXT
