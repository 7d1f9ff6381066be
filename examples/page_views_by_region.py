"""Page views by region: a stream of clicks is joined with the table of users.

A view counts for the region that its user lives in when it arrives; earlier views stay where they were
counted. Each region has a count for every minute, which includes views that arrive up to ten seconds late.

    views   user → {"page": "/home"}
    users   user → {"region": "Europe"}         a table: the last profile of each user counts, null deletes it
    views-by-region   region → {"minute": "2026-03-01T12:00:00Z", "views": 17}
"""

from datetime import UTC, datetime

from penstock.streams import App, Windowed, json, string, tumbling

UNKNOWN = "somewhere"

app = App("page-views-by-region", key=string, value=json)

views = app.stream("views")
users = app.table("users")


def region_of(view: dict, user: dict | None) -> dict:
    return {"page": view["page"], "region": UNKNOWN if user is None else user["region"]}


def row(minute: Windowed[str], views: int) -> tuple[str, dict]:
    start = datetime.fromtimestamp(minute.window.start_ms / 1000, UTC)
    return minute.key, {"minute": f"{start:%Y-%m-%dT%H:%M:%SZ}", "views": views}


per_minute = (
    views.left_join(users, region_of)
    .group_by(lambda user, view: view["region"])
    .windowed_by(tumbling("1 minute", grace="10 seconds"))
    .count(store="views-per-minute")
)
per_minute.to_stream().map(row).to("views-by-region")
