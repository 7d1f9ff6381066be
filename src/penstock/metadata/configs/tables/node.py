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
