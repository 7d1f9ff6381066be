"""Principals of certificates, and the rules that make them. `test_tls_principals_kafka` has Kafka's own."""

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from penstock.security.tls.der import DerError
from penstock.security.tls.errors import InvalidTls
from penstock.security.tls.names import distinguished_name, is_same_name
from penstock.security.tls.principals import ANONYMOUS, NoMatchingRule, SslPrincipals


def name(*relative: x509.RelativeDistinguishedName | x509.NameAttribute[str]) -> bytes:
    parts = [
        each if isinstance(each, x509.RelativeDistinguishedName) else x509.RelativeDistinguishedName([each])
        for each in relative
    ]
    return x509.Name(parts).public_bytes()


def test_a_client_without_a_certificate_is_anonymous() -> None:
    assert SslPrincipals("RULE:.*/admin/").principal_of(None) == ANONYMOUS == "User:ANONYMOUS"


def test_a_certificate_names_its_holder() -> None:
    leaf = trustme.CA().issue_cert("ann@example.com", common_name="Ann", organization_name="Kafka, Inc.")
    certificate = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes())
    der = certificate.public_bytes(Encoding.DER)
    principal = SslPrincipals().principal_of(der)
    assert principal == f"User:{certificate.subject.rfc4514_string().replace('#', chr(92) + '#')}"
    assert SslPrincipals("RULE:^CN=(.*?),.*$/$1/U").principal_of(der) == "User:ANN"


def test_a_comma_inside_a_name_does_not_begin_an_attribute() -> None:
    attacker = name(x509.NameAttribute(NameOID.COMMON_NAME, "x,CN=admin"))
    assert distinguished_name(attacker) == r"CN=x\,CN\=admin"
    both = name(
        x509.RelativeDistinguishedName(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, "a+b"),
                x509.NameAttribute(NameOID.USER_ID, " u "),
            ]
        ),
        x509.NameAttribute(NameOID.SERIAL_NUMBER, "7"),
    )
    assert distinguished_name(both) == r"2.5.4.5=#130137,CN=a\+b+UID=\ u\ "


@pytest.mark.parametrize(
    ("tag", "contents", "text"),
    [
        (0x0C, "é,€".encode(), r"é\,€"),
        (0x1E, "é,€".encode("utf-16-be"), r"é\,€"),
        (0x13, b"\xe9", "é"),
        (0x14, b"\xe9", "é"),
        (0x16, b"\xe9", "é"),
        (0x1B, b"\xe9", "é"),
        (0x1C, b"\0\0\0a", "#1c0400000061"),
        (0x0C, b"a\xff\0", "a\N{REPLACEMENT CHARACTER}\\00"),
    ],
)
def test_each_type_of_string_has_the_text_of_newer_java(tag: int, contents: bytes, text: str) -> None:
    """Java 17 decodes every type as UTF-8; newer versions decode each by its character set."""
    der = bytes.fromhex("0603550403") + bytes([tag, len(contents)]) + contents
    for wrapper in (0x30, 0x31, 0x30):
        der = bytes([wrapper, len(der)]) + der
    assert distinguished_name(der) == f"CN={text}"


def test_equal_names_differ_in_case_and_space_only() -> None:
    one = name(x509.NameAttribute(NameOID.COMMON_NAME, "Broker  One"))
    assert is_same_name(one, name(x509.NameAttribute(NameOID.COMMON_NAME, " broker one ")))
    assert not is_same_name(one, name(x509.NameAttribute(NameOID.COMMON_NAME, "brokerone")))


@pytest.mark.parametrize("damaged", ["", "30", "3003020100", "30020500", "300a31083006060355040c", "3080"])
def test_damaged_names_are_refused(damaged: str) -> None:
    with pytest.raises(DerError):
        distinguished_name(bytes.fromhex(damaged))
    with pytest.raises(DerError, match=r"no X\.509 certificate"):
        SslPrincipals().principal_of(bytes.fromhex(damaged))


@pytest.mark.parametrize(
    ("rules", "found", "expected"),
    [
        (None, "CN=Ann,OU=x", "CN=Ann,OU=x"),
        ("DEFAULT", "CN=Ann,OU=x", "CN=Ann,OU=x"),
        ("RULE:^CN=(.*?),OU=Services.*$/$1/L, DEFAULT", "CN=Ann,OU=Services,C=DE", "ann"),
        ("RULE:^CN=(.*?),OU=Services.*$/$1/L, DEFAULT", "CN=Ann,OU=Users", "CN=Ann,OU=Users"),
        (r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1@\/realm/U", "OU=x,cn=ann.b", r"ANN.B@/REALM"),
        ("RULE:CN=([^,]+),O=([^,]+)/$2-$1-$3/", "CN=a,O=b", "b-a-$3"),
        ("RULE:.*/x/", "abc", "xx"),  # as in Java, .* also matches the empty end
    ],
)
def test_rules(rules: str | None, found: str, expected: str) -> None:
    assert SslPrincipals(rules).name_of(found) == expected


@pytest.mark.parametrize("rules", ["", "RULE:CN=a/b/"])
def test_who_matches_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(NoMatchingRule, match=rf"matches 'CN=b': found '{rules}'"):
        SslPrincipals(rules).name_of("CN=b")


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("RULE:a/b", "expected RULE:pattern/replacement/, found 'RULE:a/b'"),
        ("RULE:a/b/LL", "found 'L'"),
        ("default", "found 'default'"),
        ("RULE:(a/b/", r"missing \)"),
        ("RULE:(?=a)a/b/", "patterns have the syntax of RE2"),
        (r"RULE:(a)\1/b/", "patterns have the syntax of RE2"),
        ("RULE:a/$1/", "the pattern has no group 1"),
        ("RULE:(a)/$x/", "neither a number nor a name"),
        ("RULE:(a)/$/", r"the replacement ends with \$"),
        ("RULE:(?<n>a)/${m}/", "the pattern has no group 'm'"),
    ],
)
def test_rules_that_cannot_be_used_are_named(rule: str, reason: str) -> None:
    with pytest.raises(InvalidTls, match=rf"'ssl\.principal\.mapping\.rules' has the rule .*{reason}"):
        SslPrincipals(f"DEFAULT, {rule}")


def test_no_pattern_takes_long() -> None:
    """Java's engine needs longer than the universe has existed for this one."""
    with pytest.raises(NoMatchingRule):
        SslPrincipals("RULE:^CN=(a+)+$/$1/").name_of("CN=" + "a" * 5_000 + ",")


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028", "\u2029", "\v"])
def test_a_name_of_several_lines_matches_no_pattern(end: str) -> None:
    """Java's dot, and its dollar before the last line's end, would treat each differently from RE2's."""
    with pytest.raises(NoMatchingRule):
        SslPrincipals("RULE:CN=admin.*/admin/").name_of(f"CN=admin{end}")
    assert SslPrincipals().name_of(f"CN=admin{end}") == f"CN=admin{end}"
