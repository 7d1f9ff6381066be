"""Kafka's names of what OAUTHBEARER is configured with, and of the classes that those configs may name.

They stand apart, because reading them must not import all that fetches tokens and keys.
"""

from __future__ import annotations

from typing import Final

JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
EXPECTED_ISSUER: Final = "sasl.oauthbearer.expected.issuer"
EXPECTED_AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
SCOPE_CLAIM: Final = "sasl.oauthbearer.scope.claim.name"
PRINCIPAL_CLAIM: Final = "sasl.oauthbearer.sub.claim.name"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
SERVER_HANDLER: Final = "sasl.server.callback.handler.class"
LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
VALIDATOR: Final = "sasl.oauthbearer.jwt.validator.class"
JAAS: Final = "sasl.jaas.config"

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
MODULE: Final = f"{_PACKAGE}OAuthBearerLoginModule"
SECURE_HANDLER: Final = f"{_PACKAGE}OAuthBearerValidatorCallbackHandler"
UNSECURED_HANDLER: Final = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
SECURE_LOGIN: Final = f"{_PACKAGE}OAuthBearerLoginCallbackHandler"
UNSECURED_LOGIN: Final = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
DEFAULT_RETRIEVER: Final = f"{_PACKAGE}DefaultJwtRetriever"
FILE_RETRIEVER: Final = f"{_PACKAGE}FileJwtRetriever"
CREDENTIALS_RETRIEVER: Final = f"{_PACKAGE}ClientCredentialsJwtRetriever"
ASSERTION_RETRIEVER: Final = f"{_PACKAGE}JwtBearerJwtRetriever"

LOGIN_HANDLERS: Final = (SECURE_LOGIN, UNSECURED_LOGIN)
RETRIEVERS: Final = (DEFAULT_RETRIEVER, FILE_RETRIEVER, CREDENTIALS_RETRIEVER, ASSERTION_RETRIEVER)
VALIDATORS: Final = (f"{_PACKAGE}DefaultJwtValidator", f"{_PACKAGE}BrokerJwtValidator")
"""The validators that verify signatures."""
