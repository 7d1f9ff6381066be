"""The interfaces of transforms and predicates (Connect's Transformation and Predicate).

A transform changes the records between a connector and its topics, one at a time. A predicate selects the
records that a transform changes. Both are made without arguments, configured once, and called by one thread.
A complete transform:

    from penstock.connect import ConfigDef, ConfigType, Transform

    class Capitals(Transform):
        '''Writes a field of values without a schema in capitals.'''

        definition = ConfigDef().define("field", ConfigType.STRING, doc="The field to change.")

        def start(self, config):
            self.field = config["field"]

        def apply(self, record):
            changed = record.value | {self.field: record.value[self.field].upper()}
            return record.with_value(None, changed)

`apply` never changes the record that it gets, but returns a copy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from penstock.connect.data.records import ConnectRecord
from penstock.connect.definitions.config_def import ConfigDef

R = TypeVar("R", bound=ConnectRecord)
"""The class of a record, which a transform keeps."""


class ChainPart:
    """The common parts of transforms and predicates."""

    definition: ClassVar[ConfigDef] = ConfigDef()
    """The configuration that this class needs."""
    version: ClassVar[str | None] = None
    """The version shown to users; None shows that of the package that has the class."""

    def configure(self, properties: Mapping[str, Any]) -> None:
        """Prepare with a configuration whose keys have no prefix. `definition` parses the values.

        Raises:
            ConfigInvalid: a value is missing or not valid.
        """
        self.start(self.definition.parse(properties))

    def start(self, config: Mapping[str, Any]) -> None:
        """Prepare with the parsed values of `definition`.

        Raises:
            ConfigInvalid: the values do not fit each other.
        """

    def close(self) -> None:
        """Release what `start` acquired."""


class Transform(ChainPart, ABC):
    """Changes or drops records; extend this class for a transform of your own."""

    @abstractmethod
    def apply(self, record: R) -> R | None:
        """Return the record itself, a changed copy of it, or None to drop it.

        Raises:
            ConnectError: the record cannot be changed. `errors.tolerance` decides whether the task continues.
        """


class Predicate(ChainPart, ABC):
    """Selects the records that a transform changes; extend this class for a predicate of your own."""

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Return whether the predicate holds for a record."""
