"""The keys of workers, standalone and distributed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from penstock.connect.configs.key_table import define_table
from penstock.connect.configs.rest_rules import LISTENERS_VALIDATOR, RESPONSE_HEADERS_VALIDATOR
from penstock.connect.configs.tables import security, worker
from penstock.connect.configs.topic_creation import PARTITIONS_VALIDATOR, REPLICATION_FACTOR_VALIDATOR
from penstock.connect.definitions.config_def import ConfigDef
from penstock.connect.definitions.config_key import Validator
from penstock.connect.definitions.config_types import FindClass, invalid
from penstock.connect.definitions.validators import (
    CaseInsensitiveValidString,
    DescribedValidator,
    Range,
    ValidList,
    ValidString,
)
from penstock.connect.group.assignment import ConnectProtocol
from penstock.connect.group.session_keys import ALGORITHMS

SIGNATURE_ALGORITHM: Final = "inter.worker.signature.algorithm"
VERIFICATION_ALGORITHMS: Final = "inter.worker.verification.algorithms"
PROTOCOLS: Final = tuple(protocol.name.lower() for protocol in ConnectProtocol)
INT_MAX: Final = 2**31 - 1


def check_protocol(name: str, value: Any) -> None:
    if value is None or value.lower() not in PROTOCOLS:
        raise invalid(name, value, "Invalid Connect protocol compatibility")


def check_algorithm(name: str, value: Any) -> None:
    if value not in ALGORITHMS:
        supported = f"the supported algorithms are: [{', '.join(ALGORITHMS)}]"
        raise invalid(name, value, f"the algorithm is not supported by this worker; {supported}")


def check_algorithms(name: str, value: Any) -> None:
    if not value:
        raise invalid(name, value, "At least one signature verification algorithm must be provided")
    for algorithm in value:
        check_algorithm(name, algorithm)


DNS_LOOKUPS: Final = ValidString("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
WORKER_VALIDATORS: Final[Mapping[str, Validator]] = {
    "bootstrap.servers": ValidList(may_be_empty=False),
    "client.dns.lookup": DNS_LOOKUPS,
    "plugin.path": ValidList(may_be_empty=False, may_be_null=True),
    "plugin.discovery": CaseInsensitiveValidString("only_scan", "hybrid_warn", "hybrid_fail", "service_load"),
    "metrics.sample.window.ms": Range(0),
    "metrics.num.samples": Range(1),
    "metrics.recording.level": ValidString("INFO", "DEBUG"),
    "metric.reporters": ValidList(),
    "config.providers": ValidList(),
    "listeners": LISTENERS_VALIDATOR,
    "response.http.headers.config": RESPONSE_HEADERS_VALIDATOR,
    "ssl.client.auth": ValidString("required", "requested", "none"),
    "rest.extension.classes": ValidList(),
    "admin.listeners": ValidList(may_be_null=True),
}
SECURITY_VALIDATORS: Final[Mapping[str, Validator]] = {
    "ssl.cipher.suites": ValidList(),
    "ssl.enabled.protocols": ValidList(),
    "sasl.login.refresh.window.factor": Range(0.5, 1.0),
    "sasl.login.refresh.window.jitter": Range(0.0, 0.25),
    "sasl.login.refresh.min.period.seconds": Range(0, 900),
    "sasl.login.refresh.buffer.seconds": Range(0, 3600),
    "sasl.oauthbearer.assertion.algorithm": CaseInsensitiveValidString("ES256", "RS256"),
    "sasl.oauthbearer.assertion.claim.exp.seconds": Range(0, 86400),
    "sasl.oauthbearer.assertion.claim.nbf.seconds": Range(0, 3600),
    "sasl.oauthbearer.expected.audience": ValidList(),
}
DISTRIBUTED_VALIDATORS: Final[Mapping[str, Validator]] = {
    "exactly.once.source.support": CaseInsensitiveValidString("disabled", "preparing", "enabled"),
    "metadata.max.age.ms": Range(0),
    "send.buffer.bytes": Range(-1),
    "receive.buffer.bytes": Range(-1),
    "reconnect.backoff.ms": Range(0),
    "reconnect.backoff.max.ms": Range(0),
    "socket.connection.setup.timeout.ms": Range(0),
    "socket.connection.setup.timeout.max.ms": Range(0),
    "retry.backoff.ms": Range(0),
    "retry.backoff.max.ms": Range(0),
    "request.timeout.ms": Range(0),
    "security.protocol": CaseInsensitiveValidString("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
}
STORAGE_VALIDATORS: Final[Mapping[str, Validator]] = {
    "offset.storage.partitions": PARTITIONS_VALIDATOR,
    "offset.storage.replication.factor": REPLICATION_FACTOR_VALIDATOR,
    "config.storage.replication.factor": REPLICATION_FACTOR_VALIDATOR,
    "status.storage.partitions": PARTITIONS_VALIDATOR,
    "status.storage.replication.factor": REPLICATION_FACTOR_VALIDATOR,
    "connect.protocol": DescribedValidator(check_protocol, f"[{', '.join(PROTOCOLS)}]"),
    "scheduled.rebalance.max.delay.ms": Range(0, INT_MAX),
    "inter.worker.key.ttl.ms": Range(0, INT_MAX),
    "inter.worker.key.generation.algorithm": DescribedValidator(
        check_algorithm, "Any KeyGenerator algorithm supported by the worker JVM"
    ),
    SIGNATURE_ALGORITHM: DescribedValidator(check_algorithm, "Any MAC algorithm supported by the worker JVM"),
    VERIFICATION_ALGORITHMS: DescribedValidator(
        check_algorithms, "A list of one or more MAC algorithms, each supported by the worker JVM"
    ),
    "metadata.recovery.strategy": CaseInsensitiveValidString("none", "rebootstrap"),
    "metadata.recovery.rebootstrap.trigger.ms": Range(0),
}


def base_definition() -> ConfigDef:
    """The keys of every worker."""
    definition = define_table(ConfigDef(), worker.WORKER, WORKER_VALIDATORS)
    define_table(definition, security.SSL, SECURITY_VALIDATORS)
    return define_table(definition, worker.REST, WORKER_VALIDATORS)


@cache
def standalone_definition() -> ConfigDef:
    """The keys of a worker that is alone and keeps offsets in a file."""
    return define_table(base_definition(), worker.STANDALONE)


@cache
def distributed_definition() -> ConfigDef:
    """The keys of a worker that shares connectors and tasks with others."""
    definition = define_table(base_definition(), worker.DISTRIBUTED, DISTRIBUTED_VALIDATORS)
    define_table(definition, security.SASL, SECURITY_VALIDATORS)
    return define_table(definition, worker.STORAGE, STORAGE_VALIDATORS)


def parse_distributed(properties: Mapping[str, str], find_class: FindClass | None = None) -> dict[str, Any]:
    """Parse the configuration of a distributed worker, and check what concerns several keys.

    Raises:
        ConfigInvalid: a value is missing or not valid.
    """
    parsed = distributed_definition().parse(properties, find_class)
    algorithm = parsed[SIGNATURE_ALGORITHM]
    if algorithm not in parsed[VERIFICATION_ALGORITHMS]:
        problem = f"Signature algorithm must be present in {VERIFICATION_ALGORITHMS} list"
        raise invalid(SIGNATURE_ALGORITHM, algorithm, problem)
    return parsed
