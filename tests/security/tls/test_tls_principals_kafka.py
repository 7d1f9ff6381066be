"""Random names and rules: the texts and principals of Java's X500Principal and Kafka's SslPrincipalMapper."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_node import run_java
from long_run import repetitions
from penstock.security.tls.errors import InvalidTls
from penstock.security.tls.names import distinguished_name, is_same_name
from penstock.security.tls.principals import NoMatchingRule, SslPrincipals

pytestmark = [pytest.mark.kafka, pytest.mark.longer, pytest.mark.timeout(600)]

CASES = repetitions("PENSTOCK_PRINCIPALS", gate=6_000, long=300_000)
TYPES = {  # the nine with keywords in RFC 2253, and some of those without
    "CN": "550403",
    "C": "550406",
    "L": "550407",
    "ST": "550408",
    "STREET": "550409",
    "O": "55040a",
    "OU": "55040b",
    "DC": "0992268993f22c640119",
    "UID": "0992268993f22c640101",
    "e-mail": "2a864886f70d010901",
    "serial": "550405",
    "title": "55040c",
    "own": "2a8648ce3d8f7f01",
}
ASCII_STRINGS = (0x13, 0x14, 0x16, 0x1B)
"""Java 17 decodes these as UTF-8, and newer versions as Latin-1; to ASCII text it makes no difference."""

LETTERS = ("a", "B", "7", " ", "  ", ",", "+", '"', "\\", "<", ">", ";", "=", "#", "\r", "\n", "\0", "/", ".")
WIDE = ("é", "ß", "İ", "ﬁ", "€", "😀", "Σ")
RULE_PARTS = (
    r"CN OU = , a b . .* .*? (.*) (.*?) ([^,]+) ([a-z]+) (a|b|ab) [^,]* ^ $ (?i) \d+ (\w+) (x)? "
    r"(?:a|b)* \, \/ \. a{1,2} (?<n>[ab]+) |"
)
REPLACEMENT_PARTS = r"$1 $2 $3 $0 $07 $10 $12 $ ${n} ${m} \$ \\ \/ a X @ 1 ,"


def der(tag: int, contents: bytes) -> bytes:
    size = len(contents)
    if size < 128:
        return bytes([tag, size]) + contents
    octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(octets)]) + octets + contents


def random_value(rng: random.Random) -> bytes:
    tag = rng.choice((0x0C, 0x0C, 0x0C, *ASCII_STRINGS, 0x02, 0x04))
    if tag in (0x02, 0x04):
        return der(tag, rng.randbytes(rng.randint(1, 4)))
    text = "".join(
        rng.choices(LETTERS + WIDE if tag == 0x0C else LETTERS, k=rng.choice((0, 1, 2, 4, 8, 150)))
    )
    return der(tag, text.encode())


def random_attribute(rng: random.Random) -> bytes:
    oid = der(0x06, bytes.fromhex(rng.choice(list(TYPES.values()))))
    return der(0x30, oid + random_value(rng))


def random_name(rng: random.Random) -> bytes:
    relative = [
        der(0x31, b"".join(random_attribute(rng) for _ in range(rng.choices((1, 2, 3), (8, 2, 1))[0])))
        for _ in range(rng.randint(0, 5))
    ]
    return der(0x30, b"".join(relative))


def similar_names(rng: random.Random) -> Iterator[bytes]:
    """Two names that differ, if at all, in case, white space, order or the type of a string."""
    words = [rng.choice(("Ann", "ﬁn ß", "Zoë", "a  b", "x,y", "#1", "")) for _ in range(rng.randint(1, 3))]
    oids = rng.choices(list(TYPES.values()), k=len(words))
    for _ in range(2):
        parts = []
        for oid, word in zip(oids, words, strict=True):
            changed = rng.choice(
                (word, word, word.upper(), word.lower(), f" {word} ", word.replace(" ", "   "))
            )
            tag = 0x13 if changed.isascii() and rng.random() < 0.3 else 0x0C
            parts.append(der(0x30, der(0x06, bytes.fromhex(oid)) + der(tag, changed.encode())))
        if rng.random() < 0.3:
            rng.shuffle(parts)
            yield der(0x30, der(0x31, b"".join(parts)))
        else:
            yield der(0x30, b"".join(der(0x31, part) for part in parts))


def random_rules(rng: random.Random) -> str:
    rules = []
    for _ in range(rng.randint(0, 3)):
        pattern = "".join(rng.choices([*RULE_PARTS.split(), " "], k=rng.randint(0, 4)))
        if pattern.count("(?<n>") > 1:  # Java refuses a second group of the same name; RE2 does not
            pattern = pattern.replace("(?<n>", "(")
        replacement = "".join(rng.choices([*REPLACEMENT_PARTS.split(), " "], k=rng.randint(0, 3)))
        case = rng.choice(("", "", "L", "U", "l", "LU", " "))
        rule = f"RULE:{pattern}/{replacement}/{case}"
        rules.append(
            rng.choice((rule, rule, rule, rule, rule, rule, rule, "DEFAULT", "", "default", f" {rule} "))
        )
    return rng.choice((",", ",", ", ", " , ", "\n,")).join(rules)


def random_text(rng: random.Random) -> str:
    parts = ("CN", "OU", "O", "=", ",", "a", "b", "ab", "A", "7", " ", r"\,", "/", "x", "é", "CN=ab,OU=b")
    return "".join(rng.choices(parts, k=rng.randint(0, 5)))


def java(libs: Path, directory: Path, commands: list[str]) -> list[str]:
    file = directory / "commands"
    file.write_text("".join(f"{each}\n" for each in commands))
    source = Path(__file__).with_name("KafkaPrincipals.java")
    answers = run_java(libs, str(source), str(file), timeout_s=500).splitlines()
    assert len(answers) == len(commands)
    return answers


@pytest.fixture
def rng() -> random.Random:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    return random.Random(seed)


def test_names_have_the_texts_of_java(kafka_libs: Path, tmp_path: Path, rng: random.Random) -> None:
    names = [random_name(rng) for _ in range(CASES)]
    texts = java(kafka_libs, tmp_path, [f"name\t{name.hex()}" for name in names])
    for name, text in zip(names, texts, strict=True):
        assert distinguished_name(name) == bytes.fromhex(text).decode(), name.hex()


def test_names_are_equal_that_are_to_java(kafka_libs: Path, tmp_path: Path, rng: random.Random) -> None:
    pairs = [tuple(similar_names(rng)) for _ in range(CASES)]
    answers = java(kafka_libs, tmp_path, [f"same\t{one.hex()}\t{other.hex()}" for one, other in pairs])
    for (one, other), answer in zip(pairs, answers, strict=True):
        assert is_same_name(one, other) is (answer == "true"), f"{one.hex()} {other.hex()}"
    assert min(Counter(answers).values()) > CASES // 10


def test_rules_give_the_principals_of_kafka(kafka_libs: Path, tmp_path: Path, rng: random.Random) -> None:
    cases = [(random_rules(rng), random_text(rng)) for _ in range(CASES)]
    hexed = [f"map\t{rules.encode().hex()}\t{name.encode().hex()}" for rules, name in cases]
    answers = java(kafka_libs, tmp_path, hexed)
    kinds: Counter[str] = Counter()
    for (rules, name), answer in zip(cases, answers, strict=True):
        kafkas = bytes.fromhex(answer[1:]).decode() if answer.startswith("=") else answer
        kinds[answer[:1]] += 1
        try:
            assert SslPrincipals(rules).name_of(name) == kafkas, (rules, name)
        except NoMatchingRule:
            assert kafkas == "no rule", (rules, name)
        except InvalidTls:
            # Kafka finds a wrong replacement only when the rule matches, and may have used another rule
            is_one = rules.count("RULE:") == 1 and "DEFAULT" not in rules
            assert not (is_one and answer.startswith("=")), (rules, name)
    assert kinds.keys() == {"=", "n", "r"}
