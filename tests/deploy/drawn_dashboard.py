"""A page with the panels of a dashboard at their places and what Prometheus returned for them. This is a drawing of its
own, without Grafana: it shows layout, queries and units, not how Grafana looks."""

import html
import math

COLUMN_PX, ROW_PX, GAP_PX = 58, 34, 6
COLORS = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#508642", "#cca300")
STYLE = """body{margin:0;background:#111217;color:#ccccdc;font:12px sans-serif;position:relative}
h1{font-size:16px;margin:8px 12px 0}p{margin:2px 12px 8px;color:#9a9aa5}
section{position:absolute;background:#181b1f;border:1px solid #2c3235;box-sizing:border-box;padding:4px 8px;
overflow:hidden}
section.row{background:none;border:none;font-weight:bold;padding-top:12px}h2{font-size:12px;margin:0 0 2px}
.number{font-size:22px;color:#73bf69;text-align:center}.name{font-size:11px;color:#9a9aa5}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:2px 6px;border-bottom:1px solid #2c3235}
i{display:inline-block;width:10px;height:3px;margin:0 4px 3px 0}span{margin-right:10px;white-space:nowrap}"""
SCALED = {"watt": "W", "joule": "J", "hertz": "Hz"}
PLAIN = {"celsius": " °C", "kwatth": " kWh", "ops": " ops/s", "reqps": " req/s", "cpm": " /min"}


def quantity(value, unit):
    """A number with its unit, about as Grafana writes it."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s":
        return f"{value:.3g} s" if abs(value) >= 1 else f"{1000 * value:.3g} ms"
    if unit in SCALED:
        for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= factor:
                return f"{value / factor:.4g} {prefix}{SCALED[unit]}"
        return f"{value:.4g} {SCALED[unit]}"
    return f"{value:.4g}{PLAIN.get(unit, '')}"


def points(series):
    values = series.get("values") or [series["value"]]
    return [(float(time_s), float(value)) for time_s, value in values if math.isfinite(float(value))]


def legend(target, series):
    text = target.get("legendFormat", "")
    for name, value in series["metric"].items():
        text = text.replace("{{" + name + "}}", value)
    return text.strip()


def lines_of(panel, answers):
    """Name and points of each line of a panel; stacked ones on top of each other."""
    lines = [(legend(target, series), points(series)) for target, found in zip(panel["targets"], answers)
             for series in found]
    if panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "none":
        return lines
    sums, stacked = {}, []
    for name, values in lines:
        for time_s, value in values:
            sums[time_s] = sums.get(time_s, 0) + value
        stacked.append((name, [(time_s, sums[time_s]) for time_s, _ in values]))
    return stacked


def chart(panel, answers, width, height):
    lines = lines_of(panel, answers)
    defaults = panel["fieldConfig"]["defaults"]
    legends = "".join(f'<span><i style="background:{COLORS[index % len(COLORS)]}"></i>{html.escape(name)}</span>'
                      for index, (name, _) in enumerate(lines))
    times = [time_s for _, values in lines for time_s, _ in values]
    shown = [value for _, values in lines for _, value in values]
    if not times:
        return f'<div class="number">{html.escape(defaults.get("noValue", "No data"))}</div>'
    low, high = min(shown + [defaults.get("min", math.inf)]), max(shown + [defaults.get("max", -math.inf)])
    high = high if high > low else low + max(abs(low), 1)
    left, bottom, begin, span_s = 62, height - 6, min(times), max(max(times) - min(times), 1)

    def place(time_s, value):
        x_px = left + (width - left) * (time_s - begin) / span_s
        return f"{x_px:.1f},{bottom - (bottom - 6) * (value - low) / (high - low):.1f}"

    drawn = "".join(f'<polyline fill="none" stroke="{COLORS[index % len(COLORS)]}" points="'
                    f'{" ".join(place(*point) for point in values)}"/>' for index, (_, values) in enumerate(lines))
    ticks = "".join(f'<text x="0" y="{bottom - (bottom - 6) * share + 4}" fill="#9a9aa5" font-size="10">'
                    f'{quantity(low + share * (high - low), defaults["unit"])}</text>' for share in (0, 0.5, 1))
    return f'<svg width="{width}" height="{height}">{ticks}{drawn}</svg><div>{legends}</div>'


def numbers(panel, answers):
    unit = panel["fieldConfig"]["defaults"]["unit"]
    return "".join(f'<div class="number">{quantity(points(series)[-1][1], unit)}</div>'
                   f'<div class="name" style="text-align:center">{html.escape(legend(target, series))}</div>'
                   for target, found in zip(panel["targets"], answers) for series in found)


def table(panel, answers):
    """Lines by their labels, as Grafana's transformations `merge` and `organize` make them."""
    named = panel["transformations"][1]["options"]["renameByName"]
    units = {one["matcher"]["options"]: one["properties"][0]["value"] for one in panel["fieldConfig"]["overrides"]}
    rows = [dict(series["metric"]) for series in answers[0]]
    for target, found in list(zip(panel["targets"], answers))[1:]:
        column = named["Value #" + target["refId"]]
        for series in found:
            for row in rows:
                if series["metric"].items() <= row.items():
                    row[column] = quantity(points(series)[-1][1], units[column])
    heads = list(dict.fromkeys(name for row in rows for name in row))
    lines = "".join("<tr>" + "".join(f"<td>{html.escape(row.get(name, ''))}</td>" for name in heads) + "</tr>"
                    for row in rows)
    return f"<table><tr>{''.join(f'<th>{name}</th>' for name in heads)}</tr>{lines}</table>"


def section(panel, answers):
    place = panel["gridPos"]
    width, height = place["w"] * COLUMN_PX - GAP_PX, place["h"] * ROW_PX - GAP_PX
    content = {"row": lambda: "", "timeseries": lambda: chart(panel, answers, width - 18, height - 74),
               "table": lambda: table(panel, answers)}.get(panel["type"], lambda: numbers(panel, answers))()
    return (f'<section class="{panel["type"]}" style="left:{place["x"] * COLUMN_PX + GAP_PX}px;'
            f'top:{place["y"] * ROW_PX + 52}px;width:{width}px;height:{height}px">'
            f"<h2>{html.escape(panel['title'])}</h2>{content}</section>")


def size_px(dashboard):
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    return 24 * COLUMN_PX + GAP_PX, bottom * ROW_PX + 60


def page(dashboard, answers):
    """`answers`: for each panel, by its id, the series of each of its queries."""
    sections = "".join(section(panel, answers.get(panel["id"], [])) for panel in dashboard["panels"])
    return (f'<!doctype html><html><head><meta charset="utf-8"><style>{STYLE}</style></head><body>'
            f"<h1>{html.escape(dashboard['title'])}</h1><p>Drawn by Lowgear's tests from the dashboard's JSON and what "
            f"Prometheus returned, not by Grafana. Simulated GPUs, made-up job.</p>{sections}</body></html>")
