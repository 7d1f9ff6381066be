"""The chart of the result: delays by airline and hour, and the mean delay of each day."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLIGHTS_IN_CELL_MIN = 30
"""Cells with fewer flights are left empty, since their mean would be arbitrary."""

MEAN_DELAY_SCALE_MAX = 40.0
"""Minutes at the dark end of the color scale."""

WORST_DAYS_NAMED = 4
PEAK_DISTANCE = 0.12
"""The least distance between two named days, as a share of the whole width."""

NEW_YORK = "America/New_York"
INK, MUTED, EMPTY = "#1f2933", "#7b8794", "#f1f2f4"


def draw_chart(hours: pd.DataFrame, weather: pd.DataFrame, airlines: pd.DataFrame, path: Path) -> None:
    """Draw the delays and write a PNG to `path`.

    `hours` holds the final hours of each airline, as `check.hours_of` returns them; `weather` holds the
    current sums of each airport's hours; `airlines` has the names.
    """
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 9.5), dpi=110, layout="constrained", facecolor="white")
    upper, lower = figure.subplots(2, 1, height_ratios=[2.6, 1])
    figure.suptitle(
        "Departure delays out of New York, 2013",
        x=0.012,
        ha="left",
        fontsize=17,
        fontweight="bold",
        color=INK,
    )
    _draw_carriers(figure, upper, _airline_hours(hours, airlines))
    with matplotlib.rc_context({"date.converter": "concise"}):
        _draw_days(lower, _airport_hours(weather))
        figure.savefig(path)


def _airline_hours(hours: pd.DataFrame, airlines: pd.DataFrame) -> pd.DataFrame:
    """Rows with the airline's name and the hour's local time."""
    import pandas as pd

    places = hours.index.to_series().str.split(" ", expand=True)
    carrier, times = places[0], pd.to_datetime(places[1].astype("int64"), unit="ms", utc=True)
    rows = _departed(hours)
    rows["airline"] = carrier.map(airlines["airline"]).fillna(carrier)
    rows["local"] = times.dt.tz_convert(NEW_YORK)
    return rows


def _airport_hours(weather: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    rows = _departed(weather)
    hours = weather.index.to_series().str.slice(-len("2013-01-01T10")) + ":00Z"
    rows["local"] = pd.to_datetime(hours, utc=True).dt.tz_convert(NEW_YORK)
    return rows


def _departed(rows: pd.DataFrame) -> pd.DataFrame:
    """The sums for means: flights that left, and their delays in minutes."""
    return rows.assign(
        departed=(rows["flights"] - rows["cancelled"]).astype(float), minutes=rows["minutes"].astype(float)
    )


def _draw_carriers(figure: Figure, axes: Axes, rows: pd.DataFrame) -> None:
    """Draw the mean delay as color, by airline (worst on top) and hour of the day."""
    from matplotlib import colormaps

    cells = rows.groupby(["airline", rows["local"].dt.hour])[["minutes", "departed"]].sum()
    mean = (cells["minutes"] / cells["departed"]).where(cells["departed"] >= FLIGHTS_IN_CELL_MIN)
    carriers = rows.groupby("airline")[["minutes", "departed", "flights"]].sum()
    carriers = carriers.assign(mean=carriers["minutes"] / carriers["departed"]).sort_values("mean")[::-1]
    grid = mean.unstack().reindex(carriers.index).dropna(axis=0, how="all").dropna(axis=1, how="all")
    colors = colormaps["YlOrRd"].with_extremes(bad=EMPTY)
    image = axes.imshow(grid.to_numpy(float), cmap=colors, vmin=0, vmax=MEAN_DELAY_SCALE_MAX, aspect="auto")
    for y, values in enumerate(grid.to_numpy(float)):
        for x, value in enumerate(values):
            if value == value:  # not NaN
                color = "white" if value > MEAN_DELAY_SCALE_MAX * 0.7 else INK
                axes.text(x, y, str(round(value)), ha="center", va="center", fontsize=8, color=color)
    labels = [f"{name}  ({carriers['mean'][name]:.0f} min)" for name in grid.index]
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xticks(range(grid.shape[1]), [f"{hour}" for hour in grid.columns])
    axes.set_title(
        "Mean delay in minutes by airline (of all its flights in brackets) and scheduled hour in New York",
        loc="left",
        fontsize=11,
        color=MUTED,
    )
    axes.tick_params(length=0, colors=INK, labelsize=9)
    axes.spines[:].set_visible(False)
    axes.set_xticks([x - 0.5 for x in range(1, grid.shape[1])], minor=True)
    axes.set_yticks([y - 0.5 for y in range(1, grid.shape[0])], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0)
    bar = figure.colorbar(image, ax=axes, pad=0.01, fraction=0.025, extend="max")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=9, colors=INK)


def _draw_days(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw the mean delay of each day, and name the worst days."""
    days = rows.groupby(rows["local"].dt.tz_localize(None).dt.normalize())[["minutes", "departed"]].sum()
    mean = days["minutes"] / days["departed"]
    axes.fill_between(mean.index, mean, color="#f28e4b", alpha=0.35, linewidth=0)
    axes.plot(mean.index, mean, color="#d9541e", linewidth=1)
    for day in _peaks(mean):
        label = f"{day.day} {day:%b}: {mean[day]:.0f} min"
        axes.annotate(
            label,
            (day, mean[day]),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            color=INK,
        )
    axes.set_title("Mean delay in minutes of each day, all airlines", loc="left", fontsize=11, color=MUTED)
    axes.margins(x=0.04, y=0.12)
    axes.set_ylim(bottom=min(0.0, float(mean.min())))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.tick_params(length=0, colors=INK, labelsize=9)
    axes.grid(axis="y", color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)


def _peaks(mean: pd.Series) -> list[pd.Timestamp]:
    """The worst days, far enough apart for their names to fit."""
    apart = (mean.index[-1] - mean.index[0]) * PEAK_DISTANCE
    peaks: list[pd.Timestamp] = []
    for day in mean.sort_values(ascending=False).index:
        if all(abs(day - peak) > apart for peak in peaks):
            peaks.append(day)
    return peaks[:WORST_DAYS_NAMED]
