"""Apache Kafka's own tool for delegation tokens, and its Java clients that log in with them."""

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_tools import KafkaTools
from penstock.security.delegation_tokens import password_of
from penstock.testing import Cluster
from round_trips import by_java
from token_wire import PLAIN, SCRAM, SETTINGS, TokenWire

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


class Tool:
    """Kafka's tool for tokens, by one user. ``acls`` is its tool for ACLs."""

    def __init__(self, tools: KafkaTools, cluster: Cluster, properties: Path) -> None:
        self._tools = tools
        self._where = (
            *("--bootstrap-server", cluster.bootstrap_servers),
            *("--command-config", str(properties)),
        )

    def run(self, *words: str) -> str:
        return self._tools.run("delegation-tokens", *self._where, *words)

    def refusal(self, *words: str) -> str:
        code, text = self._tools.attempt("delegation-tokens", *self._where, *words)
        assert code != 0, text
        return text

    def create(self, *words: str) -> tuple[str, str]:
        """Create a token; return its id and its HMAC."""
        printed = self.run("--create", "--max-life-time-period", "-1", *words)
        (token_id,) = re.findall("Created delegation token with tokenId : (.*)", printed)
        (token_hmac,) = re.findall(rf"^{token_id} +(\S+)", printed, re.MULTILINE)
        return token_id, token_hmac

    def seen(self, *words: str) -> set[str]:
        printed = self.run("--describe", *words)
        ids = set(re.findall(r"^([\w-]{22}) ", printed, re.MULTILINE))
        assert f"Total number of tokens : {len(ids)}\n" in printed
        return ids

    def acls(self, *words: str) -> str:
        return self._tools.run("acls", *self._where, *words)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(SETTINGS) as cluster:
        yield cluster


def client(directory: Path, module: str, name: str, password: str, options: str = "") -> Path:
    """The properties of a client."""
    properties = directory / f"{uuid.uuid4().hex}.properties"
    mechanism = "PLAIN" if module == PLAIN else "SCRAM-SHA-256"
    properties.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{name}" password="{password}" {options};\n'
    )
    return properties


def test_kafkas_tool(kafka_libs: Path, cluster: Cluster, tmp_path: Path) -> None:
    """One story in one Java process, because its start takes longest."""
    with KafkaTools(kafka_libs) as tools:
        ann, bob, admin = (
            Tool(tools, cluster, client(tmp_path, PLAIN, name, f"of-{name}"))
            for name in ("ann", "bob", "admin")
        )
        token_id, token_hmac = ann.create("--renewer-principal", "User:bob")
        of_ann = ("--owner-principal", "User:ann")
        assert ann.seen(*of_ann) == bob.seen(*of_ann) == {token_id}
        assert ann.seen() == set(), "the tool asks for the tokens of nobody, and Kafka answers the same"
        renewed = bob.run("--renew", "--hmac", token_hmac, "--renew-time-period", "3600000")
        assert "Completed renew operation. New expiry date" in renewed
        assert "DelegationTokenAuthorizationException" in bob.refusal(
            *("--create", "--max-life-time-period", "-1", *of_ann)
        )
        may = ("--operation", "CreateTokens", "--operation", "DescribeTokens", "--user-principal", "User:ann")
        assert "CREATE_TOKENS" in admin.acls("--add", "--allow-principal", "User:bob", *may)
        by_bob, _ = bob.create(*of_ann)
        assert bob.seen(*of_ann) == {token_id, by_bob}
        with_token = client(tmp_path, SCRAM, token_id, token_hmac, "tokenauth=true")
        by_token = Tool(tools, cluster, with_token)
        refused = by_token.refusal("--create", "--max-life-time-period", "-1")
        assert "UnsupportedByAuthenticationException" in refused
        expired = ann.run("--expire", "--hmac", token_hmac, "--expiry-time-period", "-1")
        assert "Completed expire operation" in expired
        gone = ann.refusal("--renew", "--hmac", token_hmac, "--renew-time-period", "-1")
        assert "DelegationTokenNotFoundException" in gone
        assert "SaslAuthenticationException" in by_token.refusal("--describe")


def test_javas_clients_log_in_with_a_token(kafka_libs: Path, cluster: Cluster, tmp_path: Path) -> None:
    with TokenWire(cluster.bootstrap_servers) as admin:
        token = admin.as_user("admin").create()
    of_token = client(tmp_path, SCRAM, token.token_id, password_of(token.hmac), "tokenauth=true")
    by_java(kafka_libs, cluster.bootstrap_servers, of_token, f"tokens-{uuid.uuid4().hex}")
