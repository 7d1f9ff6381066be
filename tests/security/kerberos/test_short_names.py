"""Short names of Kerberos principals by rules: results and errors as Apache Kafka has them."""

import pytest

from penstock.security.kerberos.names import KerberosName
from penstock.security.kerberos.short_names import NoShortName, ShortNames

REALM = "REALM.COM"


def short(name: str, *rules: str) -> str:
    return ShortNames(REALM, rules or ("DEFAULT",)).of(KerberosName.parse(name))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("App.service-name/example.com@REALM.COM", ("App.service-name", "example.com", "REALM.COM")),
        ("ann@REALM.COM", ("ann", None, "REALM.COM")),
        ("ann/@", ("ann", "", "")),
        ("ann", ("ann", None, None)),
        ("ann/admin", ("ann/admin", None, None)),
    ],
)
def test_names_have_their_parts(text: str, parts: tuple[str, str | None, str | None]) -> None:
    assert KerberosName.parse(text) == parts
    assert str(KerberosName.parse(text)) == text


@pytest.mark.parametrize("text", ["a@b@c", "a/b/c@R", "@@", "a/b@c/d"])
def test_malformed_names(text: str) -> None:
    with pytest.raises(ValueError, match=f"^Malformed Kerberos name: {text}$"):
        KerberosName.parse(text)


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        (("DEFAULT",), "ann@REALM.COM", "ann"),
        (("DEFAULT",), "kafka/host@REALM.COM", "kafka"),
        (("DEFAULT",), "ann", "ann"),
        (("RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g", "DEFAULT"), "App.ann@REALM.COM", "ann"),
        (("RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"), "ann@OTHER", "ann"),
        (("RULE:[2:$1](App\\..*)s/App\\.(.*)/$1/g",), "App.ann/host@OTHER", "ann"),
        (("RULE:[2:$1-$2]",), "ann/admin@OTHER", "ann-admin"),
        (("RULE:[1:$1]/L",), "ANN@OTHER", "ann"),
        (("RULE:[1:$1]/U",), "ann@OTHER", "ANN"),
        (("RULE:[1:$1]L",), "ANN@OTHER", "ann"),
        (("RULE:[1:$1]s/a/b/",), "aaa@X", "baa"),
        (("RULE:[1:$1]s/a/b/g",), "aaa@X", "bbb"),
        (("RULE:[1:$1]s/a/b/L",), "Aaa@X", "aba"),
        (("RULE:[1:$1]s/(a)(n)/$2$1\\$/",), "ann@X", "na$n"),
        (("RULE:[2:$1]", "RULE:[1:$1]"), "ann@X", "ann"),
        (("RULE:[1:$1](b.*)", "RULE:[1:x]"), "ann@X", "x"),
        (("RULE:[1:$1](a)", "DEFAULT"), "ann@REALM.COM", "ann"),
        (("RULE:[1:$1]s/.*//",), "ann@X", ""),
    ],
)
def test_the_first_rule_that_applies_decides(rules: tuple[str, ...], name: str, expected: str) -> None:
    assert short(name, *rules) == expected


@pytest.mark.parametrize(
    ("rules", "name", "reason"),
    [
        (("DEFAULT",), "ann@OTHER", "No rules apply to ann@OTHER, rules [DEFAULT]"),
        (
            ("RULE:[1:$1](b.*)s/b/c/gL", "RULE:[02:$1]/U"),
            "ann@X",
            "No rules apply to ann@X, rules [RULE:[1:$1](b.*)s/b/c/g/L, RULE:[2:$1]/U]",
        ),
        (
            ("RULE:[1:$1@$0]", "DEFAULT"),
            "ann@REALM.COM",
            "Non-simple name ann@REALM.COM after auth_to_local rule RULE:[1:$1@$0]",
        ),
        (("RULE:[1:$2]",), "ann@X", "index 2 from $2 is outside of the valid range 0 to 1"),
        (("RULE:[1:$]",), "ann@X", "bad format in username mapping in "),
    ],
)
def test_a_principal_without_a_short_name(rules: tuple[str, ...], name: str, reason: str) -> None:
    with pytest.raises(NoShortName) as found:
        short(name, *rules)
    assert str(found.value) == reason


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("default", "Invalid rule: default"),
        (
            "RULE:[1:$1](*a)",
            "Invalid rule: RULE:[1:$1](*a): no argument for repetition operator: *; "
            "patterns have the syntax of RE2",
        ),
        ("DEFAULT/L", "Invalid rule: `DEFAULT/L`, unmatched substring: `/L`"),
        ("RULE:[1:$1]s/a/b", "Invalid rule: `RULE:[1:$1]s/a/b`, unmatched substring: `s/a/b`"),
        ("RULE:[:$1]", "Invalid rule: RULE:[:$1]: expected a number of components after ["),
        ("RULE:[1:$1]s/a/$1/", "Invalid rule: RULE:[1:$1]s/a/$1/: the pattern has no group 1"),
    ],
)
def test_rules_that_cannot_be_used(rule: str, reason: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule") as found:
        ShortNames(REALM, [rule])
    assert str(found.value) == reason


def test_a_text_of_several_lines_matches_no_pattern() -> None:
    assert short("a\u2028n@X", "RULE:[1:$1](a.*)", "RULE:[1:line]") == "line"


def test_patterns_take_linear_time() -> None:
    """Backtracking would take longer than the universe has existed."""
    assert short("a" * 5000 + "@X", "RULE:[1:$1]s/(a+)+b/c/") == "a" * 5000
