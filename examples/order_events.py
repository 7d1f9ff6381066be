"""Event-sourced orders: the state of an order is computed from its events, and only events are written.

The table of orders is computed from the events; `app.store("orders").get("A-1")` queries it while the
application runs. Everything else follows the table: what is removed from an order, or forgotten, leaves the
sums too.

    order-events   order → {"event": "placed", "customer": "ann", "items": {"tea": 450}}   prices in cents
                   | {"event": "added", "item": "cup", "price": 1200} | {"event": "removed", "item": "cup"}
                   | {"event": "paid"} | {"event": "shipped"}
                   | {"event": "forgotten"}      at the customer's request: deletes the order everywhere
    orders         order → its state, or null
    owed           customer → the sum of the orders not yet paid
    parcels        order → what to pack, once, when it is shipped
"""

from penstock.streams import App, json, string

app = App("order-events", key=string, value=json, dead_letter="order-events-refused")

ALLOWED = {"new": ["placed"], "placed": ["added", "removed", "paid"], "paid": ["shipped"], "shipped": []}


def apply(number: str, event: dict, order: dict) -> dict | None:
    """Return the order after an event. An event that its state does not allow raises a ValueError.

    The record of that event goes to the dead-letter topic.
    """
    what = event["event"]
    if what == "forgotten":
        return None
    if what not in ALLOWED[order["state"]]:
        raise ValueError(f"order {number} is {order['state']}: it can't be {what}")
    items = order.get("items", {})
    if what == "placed":
        return {"state": what, "customer": event["customer"], "items": event["items"]}
    if what == "added":
        return {**order, "items": {**items, event["item"]: event["price"]}}
    if what == "removed":
        return {**order, "items": {item: price for item, price in items.items() if item != event["item"]}}
    return {**order, "state": what}


orders = app.stream("order-events").group_by_key().aggregate(lambda: {"state": "new"}, apply, store="orders")
orders.to_stream().to("orders")

unpaid = orders.filter(lambda number, order: order["state"] == "placed")
by_customer = unpaid.group_by(lambda number, order: (order["customer"], sum(order["items"].values())))
by_customer.sum(store="owed").to_stream().to("owed")

shipped = orders.to_stream().filter(lambda number, order: order is not None and order["state"] == "shipped")
shipped.map_values(lambda order: {"to": order["customer"], "items": [*order["items"]]}).to("parcels")
