"""Fraud detection: two patterns that reveal a stolen card.

*Probing.* A thief tries a card with many small payments in quick succession. Payments with no more than a
minute between them form a session, however long it continues; the fifth small one in it raises an alarm.

*Two places at once.* A card that pays in one country, and within the hour in another, is blocked for a day.
Its payments are declined until a timer releases it. State that is no longer needed expires by its time to
live.

    payments   card → {"amount": 12.50, "country": "FR"}
    alerts     card → {"alert": "probing" | "blocked" | "declined" | "released", …}
"""

from penstock.streams import App, Processor, Record, json, key_value_store, sessions, string

SMALL = 10
PROBES = 5
DAY_MS = 86_400_000

app = App("fraud-detection", key=string, value=json, dead_letter="payments-broken")
payments = app.stream("payments")

small = payments.filter(lambda card, payment: payment["amount"] < SMALL)
probes = small.group_by_key().windowed_by(sessions("1 minute")).count(store="small-payments")
(
    probes.to_stream(lambda session, count: session.key)
    .filter(lambda card, count: count == PROBES)
    .map_values(lambda count: {"alert": "probing", "payments": count})
    .to("alerts")
)


class TwoPlaces(Processor):
    """Block a card that is used in two countries within an hour."""

    def init(self):
        self.last = self.context.store("last-country")
        self.blocked = self.context.store("blocked")

    def process(self, record):
        card, country, now_ms = record.key, record.value["country"], record.timestamp_ms
        before = self.last.get(card)
        self.last.put(card, country, now_ms)
        if self.blocked.get(card):
            self.alert(card, now_ms, "declined", amount=record.value["amount"])
        elif before not in (None, country):
            self.blocked.put(card, True, now_ms)
            self.context.set_timer(card, now_ms + DAY_MS)
            self.alert(card, now_ms, "blocked", countries=[before, country])

    def on_timer(self, card, time_ms, kind):
        self.blocked.delete(card)
        self.alert(card, time_ms, "released")

    def alert(self, card, time_ms, alert, **details):
        self.context.forward(Record(card, {"alert": alert, **details}, time_ms))


stores = [key_value_store("last-country", ttl="1 hour"), key_value_store("blocked")]
payments.process(TwoPlaces, stores=stores, timers=True, name="two-places").to("alerts")
