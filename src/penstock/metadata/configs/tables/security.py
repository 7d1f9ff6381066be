"""TLS, SASL, delegation tokens and authorization."""

TABLE = """
authorizer.class.name: string = ""
    Class that authorizes requests; empty means that all requests are allowed.
super.users: string = ""
    Principals that may do everything, separated by semicolons: User:admin;User:broker.
allow.everyone.if.no.acl.found: boolean = false
    Allows everything on resources that have no ACL at all.
early.start.listeners: list
    Listeners that may open before the authorizer is ready.
sasl.mechanism.controller.protocol: string = GSSAPI
    SASL mechanism for connections to controllers.
connections.max.reauth.ms: long = 0
    Longest a SASL session lasts before it must authenticate again; 0 means for ever.
sasl.server.max.receive.size: int = 524288
    Largest SASL message accepted before authentication.
security.providers: string
    Classes that create security providers.
principal.builder.class: class = \
        org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder per-broker
    Class that derives the principal of a connection.
ssl.client.auth: string = none {required, requested, none} per-broker
    Whether clients must, may or need not show a certificate.
ssl.principal.mapping.rules: string = DEFAULT
    Rules that turn a certificate's name into a short name.
ssl.allow.dn.changes: boolean = false
    Allows a reloaded certificate to have another distinguished name.
ssl.allow.san.changes: boolean = false
    Allows a reloaded certificate to have other alternative names.
ssl.protocol: string = TLSv1.3 per-broker
    TLS version used to build the context.
ssl.provider: string per-broker
    Security provider used for TLS.
ssl.enabled.protocols: list = TLSv1.2,TLSv1.3 per-broker
    TLS versions that may be negotiated.
ssl.keystore.type: string = JKS per-broker
    Format of the key store.
ssl.keystore.location: string per-broker
    File of the key store.
ssl.keystore.password: password per-broker
    Password of the key store.
ssl.key.password: password per-broker
    Password of the private key.
ssl.keystore.key: password per-broker
    Private key in PEM form.
ssl.keystore.certificate.chain: password per-broker
    Certificate chain in PEM form.
ssl.truststore.type: string = JKS per-broker
    Format of the trust store.
ssl.truststore.location: string per-broker
    File of the trust store.
ssl.truststore.password: password per-broker
    Password of the trust store.
ssl.truststore.certificates: password per-broker
    Trusted certificates in PEM form.
ssl.keymanager.algorithm: string = SunX509 per-broker
    Algorithm of the key manager.
ssl.trustmanager.algorithm: string = PKIX per-broker
    Algorithm of the trust manager.
ssl.endpoint.identification.algorithm: string = https per-broker
    How a server's name is checked against its certificate.
ssl.secure.random.implementation: string per-broker
    Random generator used for TLS.
ssl.cipher.suites: list = "" per-broker
    Cipher suites that may be negotiated; empty means the defaults.
ssl.engine.factory.class: class per-broker
    Class that creates TLS engines.
sasl.mechanism.inter.broker.protocol: string = GSSAPI per-broker
    SASL mechanism between brokers.
sasl.enabled.mechanisms: list = GSSAPI per-broker
    SASL mechanisms clients may use.
sasl.server.callback.handler.class: class
    Kafka's class that decides about OAUTHBEARER: tokens must be signed, or need not be. None is loaded.
sasl.kerberos.principal.to.local.rules: list = DEFAULT per-broker
    Rules that turn a Kerberos principal into a short name.
sasl.jaas.config: password per-broker
    Login settings of SASL connections, in JAAS form.
sasl.client.callback.handler.class: class
    Class that handles SASL callbacks on the client's side.
sasl.login.class: class
    Class that logs in.
sasl.login.callback.handler.class: class
    Kafka's class that gets the node's own token of OAUTHBEARER. No class is loaded.
sasl.kerberos.service.name: string per-broker
    Kerberos service name of the brokers.
sasl.kerberos.kinit.cmd: string = /usr/bin/kinit per-broker
    Accepted for compatibility: libkrb5 gets tickets from the key table itself.
sasl.kerberos.ticket.renew.window.factor: double = 0.8 per-broker
    Accepted for compatibility: libkrb5 gets a new ticket before the last one expires.
sasl.kerberos.ticket.renew.jitter: double = 0.05 per-broker
    Accepted for compatibility: libkrb5 gets a new ticket before the last one expires.
sasl.kerberos.min.time.before.relogin: long = 60000 per-broker
    Accepted for compatibility: libkrb5 gets tickets from the key table itself.
sasl.login.refresh.window.factor: double = 0.8 per-broker
    Share of a credential's life after which it is refreshed.
sasl.login.refresh.window.jitter: double = 0.05 per-broker
    Random share added to the refresh time.
sasl.login.refresh.min.period.seconds: short = 60 per-broker
    Shortest pause before a credential is refreshed.
sasl.login.refresh.buffer.seconds: short = 300 per-broker
    Time kept between a refresh and the credential's end.
sasl.login.connect.timeout.ms: int
    Longest a connection to the identity provider may take.
sasl.login.read.timeout.ms: int
    Longest the identity provider may take to answer.
sasl.login.retry.backoff.max.ms: long = 10000
    Longest pause between two logins at the identity provider.
sasl.login.retry.backoff.ms: long = 100
    First pause between two logins at the identity provider.
sasl.oauthbearer.jwt.retriever.class: class = org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
    Kafka's class that gets tokens: Default, File, ClientCredentials or JwtBearer. No class is loaded.
sasl.oauthbearer.jwt.validator.class: class = org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
    Kafka's class that validates tokens: Default or Broker. No class is loaded.
sasl.oauthbearer.scope: string
    Scope asked for in token requests.
sasl.oauthbearer.client.credentials.client.id: string
    Client id shown to the identity provider.
sasl.oauthbearer.client.credentials.client.secret: password
    Client secret shown to the identity provider.
sasl.oauthbearer.assertion.algorithm: string = RS256 any-case {ES256, RS256}
    Algorithm that signs assertions.
sasl.oauthbearer.assertion.claim.aud: string
    Audience claim of assertions.
sasl.oauthbearer.assertion.claim.exp.seconds: int = 300 [0..86400]
    Life of an assertion in seconds.
sasl.oauthbearer.assertion.claim.iss: string
    Issuer claim of assertions.
sasl.oauthbearer.assertion.claim.jti.include: boolean = false
    Gives each assertion an id of its own.
sasl.oauthbearer.assertion.claim.nbf.seconds: int = 60 [0..3600]
    Seconds in the past from which an assertion is valid.
sasl.oauthbearer.assertion.claim.sub: string
    Subject claim of assertions.
sasl.oauthbearer.assertion.file: string
    File with a ready-made assertion.
sasl.oauthbearer.assertion.private.key.file: string
    PEM file of the key that signs assertions.
sasl.oauthbearer.assertion.private.key.passphrase: password
    Passphrase of the key that signs assertions.
sasl.oauthbearer.assertion.template.file: string
    File with headers and claims of assertions.
sasl.oauthbearer.scope.claim.name: string = scope
    Claim that holds a token's scope.
sasl.oauthbearer.sub.claim.name: string = sub
    Claim that holds a token's subject.
sasl.oauthbearer.token.endpoint.url: string
    URL where tokens are requested (https:), or of a file with a token (file:).
sasl.oauthbearer.jwks.endpoint.url: string
    URL of the keys that verify tokens (https: or file:); required by OAUTHBEARER.
sasl.oauthbearer.jwks.endpoint.refresh.ms: long = 3600000
    Age at which the verification keys are fetched again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms: long = 100
    First pause between two attempts to fetch the keys.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms: long = 10000
    Longest pause between two attempts to fetch the keys.
sasl.oauthbearer.clock.skew.seconds: int = 30
    Difference allowed between the provider's clock and ours.
sasl.oauthbearer.expected.audience: list = ""
    Audiences of which a token must name one; required by OAUTHBEARER.
sasl.oauthbearer.expected.issuer: string
    Issuer that a token must name; required by OAUTHBEARER.
delegation.token.secret.key: password
    Secret that signs delegation tokens; the same on all nodes.
delegation.token.max.lifetime.ms: long = 604800000 [1..]
    Age beyond which a delegation token cannot be renewed.
delegation.token.expiry.time.ms: long = 86400000 [1..]
    Time a delegation token is valid until it is renewed.
delegation.token.expiry.check.interval.ms: long = 3600000 [1..]
    Pause between two checks for expired delegation tokens.
"""
