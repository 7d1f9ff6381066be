"""Login settings of GSSAPI: the options of Krb5LoginModule that count, and errors for others."""

import pytest

from penstock.security.kerberos.settings import MODULE, InvalidKerberos, read_settings

KEYS = 'useKeyTab=true storeKey=true keyTab="/k" principal="kafka/h@R"'


def jaas(options: str, module: str = MODULE) -> str:
    return f"{module} required {options};"


def test_a_key_table_is_for_both_sides() -> None:
    settings = read_settings(jaas(f"{KEYS} doNotPrompt=true"), "kafka")
    settings.check_acceptor()
    settings.check_initiator()
    assert (settings.keytab, settings.principal, settings.service_name) == ("/k", "kafka/h@R", "kafka")


def test_java_also_takes_urls_of_files() -> None:
    assert read_settings(jaas(KEYS.replace('"/k"', '"file:/k"')), "kafka").keytab == "/k"


def test_a_ticket_cache_is_for_clients() -> None:
    settings = read_settings(jaas('useTicketCache=true ticketCache="/t" serviceName=kafka'), None)
    settings.check_initiator()
    assert (settings.ticket_cache, settings.service_name) == ("/t", "kafka")
    with pytest.raises(InvalidKerberos, match=r"sasl\.jaas\.config: a server has no ticket cache"):
        settings.check_acceptor()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("storeKey=true", "a server needs useKeyTab=true"),
        ('useKeyTab=true keyTab="/k" principal="a"', "a server needs storeKey=true"),
        ("useKeyTab=true storeKey=true", "a server needs its own principal"),
        ("useKeyTab=true storeKey=true principal=*", "a server needs its own principal"),
    ],
)
def test_a_server_needs_keys_of_a_principal(options: str, reason: str) -> None:
    with pytest.raises(InvalidKerberos, match=reason):
        read_settings(jaas(options), "kafka").check_acceptor()


def test_a_client_cannot_be_asked_for_a_password() -> None:
    with pytest.raises(InvalidKerberos, match="useKeyTab=true or useTicketCache=true"):
        read_settings(jaas("principal=ann"), "kafka").check_initiator()


@pytest.mark.parametrize(
    ("text", "service_name", "reason"),
    [
        ("nonsense", "kafka", r"sasl\.jaas\.config: expected 'com\.sun"),
        (jaas(KEYS, "a.B"), "kafka", r"found the login module a\.B, expected com\.sun"),
        (jaas("password=secret"), "kafka", "the option password is not known: expected some of debug, "),
        (jaas("useKeyTab=yes"), "kafka", "expected true or false for useKeyTab"),
        (jaas('useKeyTab=true keyTab=""'), "kafka", "expected a text for keyTab"),
        (jaas("keyTab=/k"), "kafka", "keyTab needs useKeyTab=true"),
        (jaas("ticketCache=/k"), "kafka", "ticketCache needs useTicketCache=true"),
        (jaas(KEYS), None, r"service\.name: No serviceName defined in either JAAS or Kafka config"),
        (
            jaas(f"{KEYS} serviceName=a"),
            "b",
            "Conflicting serviceName values found in JAAS and Kafka configs value in JAAS file a, "
            "value in Kafka config b",
        ),
    ],
)
def test_what_cannot_be_used_is_named(text: str, service_name: str | None, reason: str) -> None:
    with pytest.raises(InvalidKerberos, match=reason) as found:
        read_settings(text, service_name)
    assert "secret" not in str(found.value)
