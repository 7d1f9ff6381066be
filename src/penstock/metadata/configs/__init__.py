"""Kafka's configuration: the reference of all keys, and the resulting values of brokers, topics and groups.

Code in this package defines, parses, checks or describes configs; acting on them is the task of their
readers.
"""

from penstock.metadata.configs.broker_config import SHIPPED_PROPERTIES, BrokerConfig
from penstock.metadata.configs.definition import ConfigKey, ConfigType, ConfigValue, InvalidConfig, UpdateMode
from penstock.metadata.configs.listeners import SECURITY_PROTOCOLS, Listener, Voter
from penstock.metadata.configs.topic_config import topic_config, validate_topic_config

__all__ = [
    "SECURITY_PROTOCOLS",
    "SHIPPED_PROPERTIES",
    "BrokerConfig",
    "ConfigKey",
    "ConfigType",
    "ConfigValue",
    "InvalidConfig",
    "Listener",
    "UpdateMode",
    "Voter",
    "topic_config",
    "validate_topic_config",
]
