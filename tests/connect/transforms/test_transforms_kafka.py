"""Random records and configurations: the same records and errors as from Kafka Connect's own transforms."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connect.converters.converter_oracle import seed
from connect.transforms.kafka_transforms import answers, difference, is_error, record_of, shown_record
from connect.transforms.random_records import HEADERS, NAMES, RecordChance
from long_run import repetitions
from penstock.connect.transforms.chain import Chain, build_chain
from penstock.connect.transforms.names import TRANSFORMS
from penstock.connect.transforms.transform import Transform

RECORDS = 6
PACKAGE = "org.apache.kafka.connect.transforms."
TYPES = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
PATTERNS = (
    "yyyy-MM-dd",
    "yyyyMMdd",
    "yyyy-MM-dd'T'HH:mm:ss.SSSX",
    "EEE, d MMM yyyy hh:mm a z",
    "yy/M/d",
    "YYYY-'W'ww-u",
    "bad",
    "'open",
)


def replace_null(chance: RecordChance) -> dict[str, str]:
    return {"replace.null.with.default": "false"} if chance.happens(0.3) else {}


def replace_field(chance: RecordChance) -> dict[str, str]:
    config = replace_null(chance)
    if chance.happens(0.4):
        config["exclude"] = chance.names()
    if chance.happens(0.3):
        config["include"] = chance.names(5)
    if chance.happens(0.6):
        old = chance.random.sample(NAMES, 2)
        new = chance.random.sample((*NAMES, "z"), 2)
        suffix = chance.choice(["", "", "", ":", ":x"])
        config["renames"] = ",".join(f"{a}:{b}{suffix}" for a, b in zip(old, new, strict=True))
    return config


def insert_field(chance: RecordChance) -> dict[str, str]:
    config = replace_null(chance)
    for kind in ("topic", "partition", "offset", "timestamp", "static"):
        if chance.happens(0.35):
            config[f"{kind}.field"] = chance.choice(["a", "t", "p", "u", "v", "w"]) + chance.choice(
                ["", "?", "!"]
            )
    if chance.happens(0.9):
        config["static.value"] = "fixed"
    return config


def cast(chance: RecordChance) -> dict[str, str]:
    if chance.happens(0.3):
        spec = chance.choice([*TYPES, " STRING ", "bytes", "none"])
    else:
        pairs = [
            f"{name}:{chance.choice(TYPES)}"
            for name in chance.random.sample(NAMES, chance.random.randint(1, 2))
        ]
        spec = ",".join(pairs) + chance.choice(["", "", "", "", ":", ",int8", ",a:b:c", ",a:none"])
    return {"spec": spec, **replace_null(chance)}


def mask_field(chance: RecordChance) -> dict[str, str]:
    config = {"fields": chance.names(), **replace_null(chance)}
    if chance.happens(0.5):
        config["replacement"] = chance.choice(["7", "300", "-1.5", "x", "1e3", "99999999999999999999", ""])
    return config


def extract_field(chance: RecordChance) -> dict[str, str]:
    config = replace_null(chance)
    if chance.happens(0.6):
        config["field.syntax.version"] = chance.choice(["V2", "v2", "V1", "V3"])
        config["field"] = ".".join(
            chance.choice([*NAMES, "`a.b`", "`b.c`", "`f\\`g`", "f`g"]) for _ in range(2)
        )
        if chance.happens(0.3):
            config["field"] = chance.choice(
                ["`a", "a.", "`a.b`", "a..b", "`a`b`", "`a\\`.b`", ".a", "`f`g`.a"]
            )
    else:
        config["field"] = chance.choice(NAMES)
    return config


def flatten(chance: RecordChance) -> dict[str, str]:
    return {"delimiter": chance.choice(["_", ".", ""])} if chance.happens(0.5) else {}


def schema_metadata(chance: RecordChance) -> dict[str, str]:
    config = replace_null(chance)
    if chance.happens(0.6):
        config["schema.name"] = "new.Name"
    if chance.happens(0.6):
        config["schema.version"] = chance.choice(["3", "-1", "x"])
    return config


def timestamp_converter(chance: RecordChance) -> dict[str, str]:
    config = {
        "target.type": chance.choice(["string", "unix", "Date", "Time", "Timestamp", "none"]),
        **replace_null(chance),
    }
    if chance.happens(0.6):
        config["field"] = chance.choice(NAMES)
    if chance.happens(0.8):
        config["format"] = chance.choice(PATTERNS)
    if chance.happens(0.5):
        config["unix.precision"] = chance.choice(["seconds", "milliseconds", "microseconds", "nanoseconds"])
    return config


def regex_router(chance: RecordChance) -> dict[str, str]:
    patterns = ["(.*)-(\\d+)", "(?<name>[a-z]+).*", "a|audit-x", "orders", "(", ".*?", "([^.]*)\\.(.*)"]
    return {
        "regex": chance.choice(patterns),
        "replacement": chance.choice(["$1", "${name}-x", "new", "$1$2", "\\$1", "$9", "x\\", "$"]),
    }


def timestamp_router(chance: RecordChance) -> dict[str, str]:
    config = {}
    if chance.happens(0.5):
        config["topic.format"] = chance.choice(
            ["${timestamp}", "x-${topic}-${timestamp}", "${topic}${topic}", "$x"]
        )
    if chance.happens(0.6):
        config["timestamp.format"] = chance.choice(PATTERNS)
    return config


def header_from(chance: RecordChance) -> dict[str, str]:
    fields = chance.names(2)
    headers = ",".join(chance.choice(HEADERS) for _ in fields.split(","))
    if chance.happens(0.1):
        headers += ",h"
    return {
        "fields": fields,
        "headers": headers,
        "operation": chance.choice(["move", "copy", "move", "copy", "none"]),
        **replace_null(chance),
    }


def insert_header(chance: RecordChance) -> dict[str, str]:
    return {
        "header": "new",
        "value.literal": chance.choice(["1", "x", "[1,2]", "2020-01-01", "true", "1.5", ""]),
    }


KINDS: dict[str, Any] = {
    "ReplaceField": replace_field,
    "InsertField": insert_field,
    "Cast": cast,
    "MaskField": mask_field,
    "ExtractField": extract_field,
    "HoistField": lambda chance: {"field": chance.choice(NAMES)} if chance.happens(0.9) else {},
    "ValueToKey": lambda chance: {"fields": chance.names(2), **replace_null(chance)},
    "Flatten": flatten,
    "SetSchemaMetadata": schema_metadata,
    "Filter": lambda _chance: {},
    "RegexRouter": regex_router,
    "TimestampRouter": timestamp_router,
    "TimestampConverter": timestamp_converter,
    "HeaderFrom": header_from,
    "DropHeaders": lambda chance: {"headers": chance.choice(["h", "h,i", "x", "h,h", ""])},
    "InsertHeader": insert_header,
}


def question(chance: RecordChance, kind: str) -> dict[str, Any]:
    chance.lacks_value = 0 if kind == "HoistField" else RecordChance.lacks_value
    names = [name for name in TRANSFORMS if name.removeprefix(PACKAGE).partition("$")[0] == kind]
    return {
        "op": "transform",
        "type": chance.choice(names),
        "config": KINDS[kind](chance),
        "records": [chance.record() for _ in range(RECORDS)],
    }


class Comparison:
    """Collects differences between our answers and Java's, and counts what was compared."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.differences: dict[str, list[str]] = {}

    def add(
        self, name: str, answer: Any, ours: Callable[[], Any], context: object, *, any_text: bool = False
    ) -> None:
        self.outcomes[name, "error" if is_error(answer) else "made"] += 1
        if (found := difference(answer, ours, any_text=any_text)) is not None:
            self.differences.setdefault(name, []).append(f"{name} {context}"[:2000] + f"\n{found}")

    def finish(self, names: Iterable[str]) -> None:
        """Fail if there are differences, or if one of these names never made anything."""
        print(dict(sorted(self.outcomes.items())))
        count = sum(map(len, self.differences.values()))
        assert not count, f"{count} differences, such as\n" + "\n\n".join(
            each[0] for each in self.differences.values()
        )
        assert all(self.outcomes[name, "made"] for name in names)


@pytest.mark.kafka
@pytest.mark.longer
def test_every_transform_as_kafka(kafka_libs: Path, tmp_path: Path) -> None:
    chance = RecordChance(seed())
    count = repetitions("PENSTOCK_TRANSFORMS", gate=30, long=3000)
    questions = [question(chance, kind) for _ in range(count) for kind in KINDS]
    comparison = Comparison()
    for asked, answer in zip(questions, answers(kafka_libs, tmp_path, questions), strict=True):
        transform = TRANSFORMS[asked["type"]]()
        name, config = asked["type"].removeprefix(PACKAGE), asked["config"]
        if is_error(answer):
            comparison.add(name, answer, partial(transform.configure, config), config)
            continue
        transform.configure(config)
        # Without a schema, Java casts and masks in the order of hash codes, up to the first error.
        any_text = name.partition("$")[0] in ("Cast", "MaskField") and "," in str(list(config.values()))
        for given, made in zip(asked["records"], answer, strict=True):
            ours = partial(applied, transform, given)
            comparison.add(name, made, ours, (config, given), any_text=any_text)
    comparison.finish(name.removeprefix(PACKAGE) for name in TRANSFORMS)


def applied(transform: Transform, given: Any) -> Any:
    return shown_record(transform.apply(record_of(given)))


def predicate_config(chance: RecordChance, kind: str) -> dict[str, str]:
    if kind.endswith("HasHeaderKey"):
        return {"name": chance.choice([*HEADERS, "x", ""])}
    if kind.endswith("TopicNameMatches"):
        return {
            "pattern": chance.choice(["orders.*", "a", "[a-z.]+", "", "(", "(?i)AUDIT-.", "a|orders-\\d"])
        }
    return {}


@pytest.mark.kafka
@pytest.mark.longer
def test_chains_and_predicates_as_kafka(kafka_libs: Path, tmp_path: Path) -> None:
    chance = RecordChance(seed())
    count = repetitions("PENSTOCK_TRANSFORM_CHAINS", gate=80, long=3000)
    questions = [chain_question(chance) for _ in range(count)]
    comparison = Comparison()
    for asked, answer in zip(questions, answers(kafka_libs, tmp_path, questions), strict=True):
        config = asked["config"]
        if is_error(answer):
            comparison.add("refused", answer, partial(build_chain, config), config, any_text=True)
            continue
        chain = build_chain(config)
        for given, made in zip(asked["records"], answer, strict=True):
            ours = partial(chained, chain, given)
            comparison.add("chain", made, ours, (config, given), any_text=True)
    comparison.finish(["chain"])


def chained(chain: Chain, given: Any) -> Any:
    return shown_record(chain.apply(record_of(given)))


def chain_question(chance: RecordChance) -> dict[str, Any]:
    """A connector's configuration with random transforms and predicates, and perhaps a fault in it."""
    config = {"name": "connector", "connector.class": "org.example.Connector"}
    aliases = chance.random.sample(["x", "y", "z"], chance.random.randint(0, 3))
    config["transforms"] = ", ".join([*aliases, *(aliases[:1] if chance.happens(0.03) else [])])
    if chance.happens(0.95):
        config["predicates"] = "p,q" + chance.choice(["", "", "", "", ",p"])
    for alias, kind in (
        ("p", "TopicNameMatches"),
        ("q", chance.choice(["HasHeaderKey", "RecordIsTombstone"])),
    ):
        config[f"predicates.{alias}.type"] = f"{PACKAGE}predicates.{kind}"
        config |= with_prefix(f"predicates.{alias}.", predicate_config(chance, kind))
    for alias in aliases:
        kind = chance.choice(list(KINDS))
        prefix = f"transforms.{alias}."
        if chance.happens(0.98):
            name = chance.choice(
                [name for name in TRANSFORMS if name.startswith((PACKAGE + kind + "$", PACKAGE + kind))]
            )
            config[prefix + "type"] = name
        config |= with_prefix(prefix, KINDS[kind](chance))
        if chance.happens(0.6):
            config[prefix + "predicate"] = chance.choice(["p", "q", "p", "q", "none"])
        if chance.happens(0.3):
            config[prefix + "negate"] = chance.choice(["true", "false", "true", "false", "maybe"])
    return {"op": "chain", "config": config, "records": [chance.record() for _ in range(RECORDS)]}


def with_prefix(prefix: str, config: dict[str, str]) -> dict[str, str]:
    return {prefix + name: value for name, value in config.items()}
