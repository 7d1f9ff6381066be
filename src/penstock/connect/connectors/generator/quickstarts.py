"""Schemas that have a name in the configuration, with the field that is the key.

The names and the fields are those of Confluent's Datagen, so that its tutorials work.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple


class Quickstart(NamedTuple):
    """A schema, and the field of its values that is the key."""

    schema: str
    key_field: str


def _field(name: str, type: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "type": {"type": type, "arg.properties": properties}}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "ksql", "fields": list(fields)}


def _quickstart(name: str, key_field: str, *fields: dict[str, Any]) -> Quickstart:
    return Quickstart(json.dumps(_record(name, *fields)), key_field)


_CITIES: Final = ["Berlin", "Lagos", "Lima", "Lyon", "Osaka", "Oslo", "Pune", "Quito"]
_STATES: Final = ["CA", "NY", "OR", "TX", "UT", "WA"]
_USER: Final = {"regex": "User_[1-9]"}
_ADDRESS: Final = {
    "name": "address",
    "type": _record(
        "address",
        _field("city", "string", options=_CITIES),
        _field("state", "string", options=_STATES),
        _field("zipcode", "long", range={"min": 10000, "max": 100000}),
    ),
}
_MESSAGES: Final = [
    "all fine",
    "late again",
    "the meal was cold",
    "the seat was too small",
    "thank you, crew",
]
QUICKSTARTS: Final = {
    "users": _quickstart(
        "users",
        "userid",
        _field("registertime", "long", range={"min": 1487715775521, "max": 1519273364600}),
        _field("userid", "string", **_USER),
        _field("regionid", "string", regex="Region_[1-9]"),
        _field("gender", "string", options=["MALE", "FEMALE", "OTHER"]),
    ),
    "pageviews": _quickstart(
        "pageviews",
        "viewtime",
        _field("viewtime", "long", iteration={"start": 1, "step": 10}),
        _field("userid", "string", **_USER),
        _field("pageid", "string", regex="Page_[1-9][0-9]?"),
    ),
    "orders": _quickstart(
        "orders",
        "orderid",
        _field("ordertime", "long", range={"min": 1487715775521, "max": 1519273364600}),
        _field("orderid", "int", iteration={"start": 0}),
        _field("itemid", "string", regex="Item_[1-9][0-9]{0,2}"),
        _field("orderunits", "double", range={"min": 0.1, "max": 10.0}),
        _ADDRESS,
    ),
    "ratings": _quickstart(
        "ratings",
        "rating_id",
        _field("rating_id", "long", iteration={"start": 1}),
        _field("user_id", "int", range={"min": 1, "max": 20}),
        _field("stars", "int", range={"min": 1, "max": 6}),
        _field("route_id", "int", range={"min": 1, "max": 10000}),
        _field("rating_time", "long", iteration={"start": 1, "step": 12}),
        _field("channel", "string", options=["web", "ios", "android", "iOS-test"]),
        _field("message", "string", options=_MESSAGES),
    ),
    "stock_trades": _quickstart(
        "StockTrade",
        "symbol",
        _field("side", "string", options=["BUY", "SELL"]),
        _field("quantity", "int", range={"min": 1, "max": 5001}),
        _field("symbol", "string", options=["ZBZX", "ZJZZT", "ZTEST", "ZVV", "ZVZZT", "ZWZZT", "ZXZZT"]),
        _field("price", "int", range={"min": 5, "max": 1001}),
        _field("account", "string", options=["ABC123", "LMN456", "XYZ789"]),
        _field("userid", "string", **_USER),
    ),
    "inventory": _quickstart(
        "inventory",
        "id",
        _field("id", "long", iteration={"start": 0}),
        _field("quantity", "int", range={"min": 1, "max": 100}),
        _field("productid", "int", range={"min": 1, "max": 1000}),
    ),
    "product": _quickstart(
        "product",
        "id",
        _field("id", "long", iteration={"start": 0}),
        _field("name", "string", regex="Product_[1-9][0-9]{0,2}"),
        _field("description", "string", length={"min": 10, "max": 40}),
        _field("price", "float", range={"min": 1, "max": 100}),
    ),
    "stores": _quickstart(
        "stores",
        "store_id",
        _field("store_id", "int", iteration={"start": 1, "restart": 8}),
        _field("city", "string", options=_CITIES),
        _field("state", "string", options=_STATES),
    ),
    "transactions": _quickstart(
        "transactions",
        "transaction_id",
        _field("transaction_id", "long", iteration={"start": 1}),
        _field("card_id", "long", range={"min": 1, "max": 26}),
        _field("user_id", "string", **_USER),
        _field("purchase_id", "long", iteration={"start": 0}),
        _field("store_id", "int", range={"min": 1, "max": 8}),
    ),
}
