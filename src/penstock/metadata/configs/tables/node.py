"""The node itself: its identity, its roles and its place in the cluster."""

TABLE = """
broker.id: int = -1
    Older name of node.id; if both are set they must agree.
background.threads: int = 10 [1..] cluster-wide
    Workers for background jobs such as retention and recovery.
config.providers: list = "" cluster-wide
    Aliases of the config providers that fill in values kept elsewhere.
broker.rack: string
    Rack of this broker; used to spread replicas.
controlled.shutdown.enable: boolean = true
    Hands leadership over before the broker stops.
confluent.schema.registry.url: string
    Schema registry that checks records of topics with schema validation.
confluent.basic.auth.user.info: password
    Name and password, with a colon between them, of the node's user at the schema registry.
confluent.ssl.truststore.type: string
    Format of the trust store for the schema registry: PEM, PKCS12 or JKS; null means what the file holds.
confluent.ssl.truststore.location: string
    File of the trust store for the schema registry.
confluent.ssl.truststore.password: password
    Password of the trust store for the schema registry.
confluent.ssl.keystore.type: string
    Format of the key store for the schema registry: PEM, PKCS12 or JKS; null means what the file holds.
confluent.ssl.keystore.location: string
    File of the key store, whose certificate the node shows to the schema registry.
confluent.ssl.keystore.password: password
    Password of the key store for the schema registry.
confluent.ssl.key.password: password
    Password of the private key for the schema registry.
unstable.api.versions.enable: boolean = false internal
    Serves API versions that are still in development.
unstable.feature.versions.enable: boolean = false internal
    Allows feature levels that are still in development.
process.roles: list = required {broker, controller} not-empty
    Roles of this node: broker, controller or both.
node.id: int = required [0..]
    This node's id, unique in the cluster.
initial.broker.registration.timeout.ms: int = 60000
    Longest a starting broker waits to be registered by the controller.
broker.heartbeat.interval.ms: int = 2000
    Pause between a broker's heartbeats to the controller.
broker.session.timeout.ms: int = 9000
    Time without a heartbeat after which the controller fences a broker.
server.max.startup.time.ms: long = 9223372036854775807 [0..] internal
    Accepted for compatibility: a node that cannot start reports the reason.
"""
