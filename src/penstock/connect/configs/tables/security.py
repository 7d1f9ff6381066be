"""TLS and SASL of workers and clients."""

SSL = """
ssl.protocol: STRING MEDIUM = TLSv1.3
    Protocol that a TLS context is made for; ssl.enabled.protocols limits what a connection uses.
ssl.provider: STRING MEDIUM = null
    Java's security provider of TLS; accepted and not used.
ssl.cipher.suites: LIST LOW =
    Cipher suites that a connection may use; all that are supported if empty.
ssl.enabled.protocols: LIST MEDIUM = TLSv1.2,TLSv1.3
    Versions of TLS that a connection may use.
ssl.keystore.type: STRING MEDIUM = JKS
    Format of the key store: JKS, PKCS12 or PEM.
ssl.keystore.location: STRING HIGH = null
    File with the own certificate and private key.
ssl.keystore.password: PASSWORD HIGH = null
    Password of the key store's file.
ssl.key.password: PASSWORD HIGH = null
    Password of the private key.
ssl.keystore.key: PASSWORD HIGH = null
    Private key as PEM text (PKCS#8), in place of a key store's file.
ssl.keystore.certificate.chain: PASSWORD HIGH = null
    Certificates of the private key as PEM text, the own one first.
ssl.truststore.certificates: PASSWORD HIGH = null
    Trusted certificates as PEM text, in place of a trust store's file.
ssl.truststore.type: STRING MEDIUM = JKS
    Format of the trust store: JKS, PKCS12 or PEM.
ssl.truststore.location: STRING HIGH = null
    File with the certificates that are trusted.
ssl.truststore.password: PASSWORD HIGH = null
    Password of the trust store's file.
ssl.keymanager.algorithm: STRING LOW = SunX509
    Algorithm of Java's key manager; accepted and not used.
ssl.trustmanager.algorithm: STRING LOW = PKIX
    Algorithm of Java's trust manager; accepted and not used.
ssl.endpoint.identification.algorithm: STRING LOW = https
    How a server's name is compared with its certificate; an empty text switches the check off.
ssl.secure.random.implementation: STRING LOW = null
    Java's generator of random numbers for TLS; accepted and not used.
ssl.engine.factory.class: CLASS LOW = null
    Java class that makes TLS engines; accepted and not used.
"""

SASL = """
sasl.kerberos.service.name: STRING MEDIUM = null
    Name of the Kerberos principal that brokers run as.
sasl.kerberos.kinit.cmd: STRING LOW = /usr/bin/kinit
    Path of the kinit command.
sasl.kerberos.ticket.renew.window.factor: DOUBLE LOW = 0.8
    Part of a ticket's lifetime after which it is renewed.
sasl.kerberos.ticket.renew.jitter: DOUBLE LOW = 0.05
    Random part that is added to the time of a renewal.
sasl.kerberos.min.time.before.relogin: LONG LOW = 60000
    Least time in milliseconds between two renewals.
sasl.login.refresh.window.factor: DOUBLE LOW = 0.8
    Part of a token's lifetime after which it is refreshed.
sasl.login.refresh.window.jitter: DOUBLE LOW = 0.05
    Largest random part of the lifetime that is added to the time of a refresh.
sasl.login.refresh.min.period.seconds: SHORT LOW = 60
    Least time in seconds before a token is refreshed.
sasl.login.refresh.buffer.seconds: SHORT LOW = 300
    Time in seconds that a refresh should leave before the token expires.
sasl.mechanism: STRING MEDIUM = GSSAPI
    SASL mechanism of connections.
sasl.jaas.config: PASSWORD MEDIUM = null
    Login module with its options, in the format of a JAAS file; it holds the user's name and secret.
sasl.client.callback.handler.class: CLASS MEDIUM = null
    Java class that answers questions of a SASL client; accepted and not used.
sasl.login.callback.handler.class: CLASS MEDIUM = null
    Java class that answers questions of a login.
sasl.login.class: CLASS MEDIUM = null
    Java class of a login; accepted and not used.
sasl.login.connect.timeout.ms: INT LOW = null
    Longest that a connection to the identity provider may take.
sasl.login.read.timeout.ms: INT LOW = null
    Longest that an answer of the identity provider may take.
sasl.login.retry.backoff.max.ms: LONG LOW = 10000
    Longest wait between two attempts to log in at the identity provider.
sasl.login.retry.backoff.ms: LONG LOW = 100
    First wait between two attempts to log in at the identity provider.
sasl.oauthbearer.jwt.retriever.class: CLASS MEDIUM = \
org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
    Class that gets tokens.
sasl.oauthbearer.jwt.validator.class: CLASS MEDIUM = \
org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
    Class that checks tokens.
sasl.oauthbearer.scope: STRING MEDIUM = null
    Scope to ask a token for.
sasl.oauthbearer.client.credentials.client.id: STRING MEDIUM = null
    Client's id for the grant of client credentials.
sasl.oauthbearer.client.credentials.client.secret: PASSWORD MEDIUM = null
    Client's secret for the grant of client credentials.
sasl.oauthbearer.assertion.algorithm: STRING MEDIUM = RS256
    Algorithm that signs assertions.
sasl.oauthbearer.assertion.claim.aud: STRING MEDIUM = null
    Audience in assertions.
sasl.oauthbearer.assertion.claim.exp.seconds: INT LOW = 300
    Time in seconds after which an assertion expires.
sasl.oauthbearer.assertion.claim.iss: STRING MEDIUM = null
    Issuer in assertions.
sasl.oauthbearer.assertion.claim.jti.include: BOOLEAN MEDIUM = false
    Whether each assertion has an id of its own.
sasl.oauthbearer.assertion.claim.nbf.seconds: INT LOW = 60
    Seconds by which the validity of an assertion begins before it is made.
sasl.oauthbearer.assertion.claim.sub: STRING MEDIUM = null
    Subject in assertions.
sasl.oauthbearer.assertion.file: STRING MEDIUM = null
    File with a finished assertion.
sasl.oauthbearer.assertion.private.key.file: STRING MEDIUM = null
    File with the private key that signs assertions, as PEM.
sasl.oauthbearer.assertion.private.key.passphrase: PASSWORD MEDIUM = null
    Passphrase of that private key.
sasl.oauthbearer.assertion.template.file: STRING MEDIUM = null
    JSON file with more headers and claims of assertions.
sasl.oauthbearer.scope.claim.name: STRING LOW = scope
    Name of the claim that has the scope.
sasl.oauthbearer.sub.claim.name: STRING LOW = sub
    Name of the claim that has the subject.
sasl.oauthbearer.token.endpoint.url: STRING MEDIUM = null
    URL of the identity provider's token endpoint.
sasl.oauthbearer.jwks.endpoint.url: STRING MEDIUM = null
    URL of the identity provider's keys.
sasl.oauthbearer.jwks.endpoint.refresh.ms: LONG LOW = 3600000
    Time after which the identity provider's keys are read again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms: LONG LOW = 10000
    Longest wait between two attempts to read the identity provider's keys.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms: LONG LOW = 100
    First wait between two attempts to read the identity provider's keys.
sasl.oauthbearer.clock.skew.seconds: INT LOW = 30
    Difference in seconds that the clocks of the identity provider and the broker may have.
sasl.oauthbearer.expected.audience: LIST HIGH =
    Audiences of which a token must have one.
sasl.oauthbearer.expected.issuer: STRING HIGH = null
    Issuer that a token must have.
sasl.oauthbearer.header.urlencode: BOOLEAN LOW = false
    Whether the client's id and secret are URL-encoded in the authorization header.
"""
