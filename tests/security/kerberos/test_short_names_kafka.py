"""Random rules and principals: the same short names and errors as Apache Kafka's own classes."""

import random
from collections import Counter
from pathlib import Path

import pytest

from kafka_node import run_java
from long_run import repetitions
from penstock.security.kerberos.names import KerberosName
from penstock.security.kerberos.short_names import NoShortName, ShortNames

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(600)]

CASES = repetitions("PENSTOCK_SHORT_NAMES", gate=5_000, long=100_000)
REALMS = ("R.COM", "O", "r.com", "")
COMPONENTS = ("ann", "Ann", "kafka", "App.a-b", "aaa", "İß", "host.r.com", "a1", "", "$1", "x y")
FORMATS = ("$1", "$0", "$1@$0", "$2", "$1/$2", "$1-$2.$0", "$", "$3", "a$1b", "", "$01", "$99999999999", "x")
PATTERNS = (
    "",
    ".*",
    "a.*",
    "(a)",
    "[a-z]+",
    "A",
    ".*@R.COM",
    "(a)(n+)",
    "a|n",
    "^a",
    "n$",
    "(?<x>a)n",
    "a*",
    "*",
)
REPLACEMENTS = ("", "b", "$1", "$0", "x$1$2", "\\$", "$", "$3", "${x}", "a@b", "\\", "$12")
RARELY = 0.05


@pytest.fixture
def rng() -> random.Random:
    seed = random.randrange(2**32)
    print(f"seed={seed}")
    return random.Random(seed)


def random_principal(rng: random.Random) -> str:
    name = rng.choice(COMPONENTS)
    if rng.random() < 0.5:
        name += "/" + rng.choice(COMPONENTS)
    if rng.random() < 0.9:
        name += "@" + rng.choice(REALMS)
    return name + rng.choice(("/", "@", "@a@")) if rng.random() < RARELY else name


def random_rule(rng: random.Random) -> str:
    if rng.random() < 0.15:
        return "DEFAULT"
    rule = f"RULE:[{rng.choice('1122230')}:{rng.choice(FORMATS)}]"
    if rng.random() < 0.5:
        rule += f"({rng.choice([each for each in PATTERNS if ')' not in each])})"
    if rng.random() < 0.6:
        rule += f"s/{rng.choice(PATTERNS)}/{rng.choice(REPLACEMENTS)}/{rng.choice(('', 'g'))}"
    rule += rng.choice(("", "", "/L", "/U", "L", "U"))
    if rng.random() < RARELY:
        rule = rng.choice(
            (f"{rule}x", f"{rule}/g", rule[1:], rule.replace("]", "", 1), rule.replace(":", "", 1))
        )
    return rule


def answer(realm: str, principal: str, rules: list[str]) -> tuple[str, str]:
    try:
        names = ShortNames(realm, rules)
    except ValueError as error:
        return "rules", str(error)
    try:
        return "short", names.of(KerberosName.parse(principal))
    except NoShortName as error:
        return "none", str(error)
    except ValueError as error:
        return "name", str(error)


def test_both_give_the_same_names(kafka_libs: Path, rng: random.Random) -> None:
    cases = [
        (rng.choice(REALMS), random_principal(rng), [random_rule(rng) for _ in range(rng.randint(1, 3))])
        for _ in range(CASES)
    ]
    lines = "".join(
        "\t".join(text.encode().hex() for text in (realm, principal, *rules)) + "\n"
        for realm, principal, rules in cases
    )
    source = Path(__file__).with_name("KafkaShortNames.java")
    kafkas = run_java(kafka_libs, str(source), text=lines).splitlines()
    assert len(kafkas) == len(cases)
    kinds: Counter[str] = Counter()
    for case, line in zip(cases, kafkas, strict=True):
        kind, text = line.split("\t")
        expected = (kind, bytes.fromhex(text).decode())
        ours = answer(*case)
        kinds[ours[0]] += 1
        if ours[0] == "rules":
            # The words differ, and Kafka finds out about a wrong replacement only when a name matches.
            is_replacement = any(words in ours[1] for words in ("replacement", "no group", "$ stands"))
            assert expected[0] == "rules" or is_replacement, case
            continue
        assert ours == expected, case
    assert min(kinds[kind] for kind in ("short", "none", "rules", "name")) > CASES / 200, kinds
