"""Drawings as SVG: curves of energy over time, and timelines of ranks. Every text is escaped; nothing is loaded."""

from __future__ import annotations

import math
from html import escape
from typing import Callable, Dict, List, NamedTuple, Sequence, Tuple

_FONT = 'font-family="system-ui,sans-serif" font-size="11"'
# Readable on light and on dark paper, as the drawings have none of their own.
_INK, _PALE, _ACCENT, _MARK = "#7b7b86", "#80808040", "#8b5cc4", "#d9601f"
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 26, 40
_OPS_WITH_TOOLTIPS = 2000
_MOST_OPS = 100_000

# From slow to fast, evenly along matplotlib's "plasma" (CC0): lightness rises all the way.
_CLOCK_COLOURS = ((13, 8, 135), (126, 3, 168), (204, 71, 120), (248, 149, 64), (240, 249, 33))


class Point(NamedTuple):
    """A mark in a drawing of energy over time."""

    label: str
    time_s: float
    energy_j: float


class Bar(NamedTuple):
    """An op in a timeline."""

    rank: int
    label: str
    clock_mhz: int
    start_s: float
    duration_s: float


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" style="max-width:100%;height:auto" role="img" {_FONT} fill="{_INK}"><title>{escape(title)}</title>'
        f'<text x="{_LEFT}" y="16" font-weight="600">{escape(title)}</text>' + "".join(parts) + "</svg>"
    )


def _ticks(low: float, high: float, count: int = 5) -> List[float]:
    """Round numbers within [low, high], about `count` of them."""
    if not high > low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / count))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= count)
    first = math.ceil(low / step)
    return [step * k for k in range(first, math.floor(high / step) + 1)]


def _energy_unit(most_j: float) -> Tuple[str, float]:
    """The largest unit of which there is one, and its size in J."""
    return next(((name, size) for name, size in (("MJ", 1e6), ("kJ", 1e3)) if most_j >= 10 * size), ("J", 1.0))


class _Axes:
    """Places of values in a drawing of energy over time."""

    def __init__(self, points: Sequence[Tuple[float, float]], width: int = 640, height: int = 320):
        times, energies = zip(*points)
        self.width, self.height = width, height
        self.x = self._scale(min(times), max(times), _LEFT, width - _RIGHT)
        self.y = self._scale(min(energies), max(energies), height - _BOTTOM, _TOP)
        self._ranges = (min(times), max(times)), (min(energies), max(energies))

    @staticmethod
    def _scale(low: float, high: float, begin: float, end: float) -> Callable[[float], float]:
        margin = (end - begin) * 0.04
        if not high > low:
            return lambda value: (begin + end) / 2
        return lambda value: begin + margin + (end - begin - 2 * margin) * (value - low) / (high - low)

    def frame(self) -> str:
        (first_s, last_s), (least_j, most_j) = self._ranges
        bottom, right = self.height - _BOTTOM, self.width - _RIGHT
        parts = [f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="{_INK}"/>']
        for time_s in _ticks(first_s, last_s, 8):
            parts.append(f'<text x="{self.x(time_s):.1f}" y="{bottom + 14}" text-anchor="middle">{time_s:.6g}</text>')
        unit, size_j = _energy_unit(most_j)
        for energy in _ticks(least_j / size_j, most_j / size_j):
            y = self.y(energy * size_j)
            parts.append(f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="{_PALE}"/>')
            parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{energy:.6g}</text>')
        middle = (_LEFT + right) / 2
        parts.append(f'<text x="{middle:g}" y="{self.height - 8}" text-anchor="middle">iteration time, s</text>')
        parts.append(f'<text x="{_LEFT}" y="{_TOP - 1}" text-anchor="end" dx="-6">{unit}</text>')
        return "".join(parts)

    def line(self, points: Sequence[Tuple[float, float]], style: str) -> str:
        places = " ".join(f"{self.x(time_s):.1f},{self.y(energy_j):.1f}" for time_s, energy_j in points)
        return f'<polyline points="{places}" fill="none" {style}/>'

    def label(self, point: Point, others: Sequence[Tuple[float, float]]) -> str:
        """The name of a point, where it covers the fewest of the `others` (places in the drawing)."""
        x, y = self.x(point.time_s), self.y(point.energy_j)
        width = 6.2 * len(point.label)

        def covered(spot: Tuple[float, float]) -> int:
            left, base = spot
            outside = left < _LEFT or left + width > self.width or base - 11 < _TOP or base > self.height - _BOTTOM
            inside = sum(left - 5 <= a <= left + width + 5 and base - 14 <= b <= base + 6 for a, b in others)
            return inside + (len(others) + 1 if outside else 0)

        spots = [(left, y + dy) for dy in (-6, 15, -22, 31, -38, 47) for left in (x + 7, x - 7 - width, x - width / 2)]
        left, base = min(spots, key=covered)
        return f'<text x="{left:.1f}" y="{base:.1f}">{escape(point.label)}</text>'

    def along(self, points: Sequence[Tuple[float, float]]) -> List[Tuple[float, float]]:
        """Places every few pixels along a line."""
        places = [(self.x(time_s), self.y(energy_j)) for time_s, energy_j in points]
        return places[:1] + [
            (a[0] + (b[0] - a[0]) * step / 40, a[1] + (b[1] - a[1]) * step / 40)
            for a, b in zip(places, places[1:])
            for step in range(1, 41)
        ]

    def dot(self, point: Point, colour: str) -> str:
        x, y = self.x(point.time_s), self.y(point.energy_j)
        tip = escape(f"{point.label}: {point.time_s:.6g} s, {point.energy_j:.6g} J")
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"><title>{tip}</title></circle>'


def energy_over_time(
    title: str,
    curve: Sequence[Tuple[float, float]],
    dots: Sequence[Point] = (),
    marks: Sequence[Point] = (),
    bound: Sequence[Tuple[float, float]] = (),
) -> str:
    """A curve of least energies (J) over iteration times (s), with dots on it, named marks, and a dashed lower bound."""
    every = [*curve, *bound, *((point.time_s, point.energy_j) for point in (*dots, *marks))]
    if not every:
        return _svg(640, 60, title, [])
    axes = _Axes(every)
    parts = [axes.frame()]
    if bound:
        parts.append(axes.line(bound, f'stroke="{_ACCENT}" stroke-dasharray="4 3"'))
    if curve:
        parts.append(axes.line(curve, f'stroke="{_ACCENT}" stroke-width="1.6"'))
    parts.extend(axes.dot(point, _ACCENT) for point in dots)
    parts.extend(axes.dot(point, _MARK) for point in marks)
    taken = [(axes.x(point.time_s), axes.y(point.energy_j)) for point in (*dots, *marks)] + axes.along(curve)
    parts.extend(axes.label(point, taken) for point in marks)
    return _svg(axes.width, axes.height, title, parts)


def clock_colour(clock_mhz: int, low_mhz: int, high_mhz: int) -> str:
    """Dark for slow, light for fast."""
    share = (clock_mhz - low_mhz) / (high_mhz - low_mhz) if high_mhz > low_mhz else 1.0
    place = share * (len(_CLOCK_COLOURS) - 1)
    below = min(int(place), len(_CLOCK_COLOURS) - 2)
    mixed = (
        round(a + (b - a) * (place - below)) for a, b in zip(_CLOCK_COLOURS[below], _CLOCK_COLOURS[below + 1])
    )
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _clock_legend(low_mhz: int, high_mhz: int, y: float, right: float) -> str:
    steps, step = 24, 5
    left = right - steps * step - 64
    cells = "".join(
        f'<rect x="{left + i * step}" y="{y}" width="{step}" height="9" fill="{clock_colour(i, 0, steps - 1)}"/>'
        for i in range(steps)
    )
    return (
        f'<text x="{left - 6}" y="{y + 9}" text-anchor="end">{low_mhz}</text>{cells}'
        f'<text x="{left + steps * step + 6}" y="{y + 9}">{high_mhz} MHz</text>'
    )


def _bars_with_tooltips(bars: Sequence[Bar], place: Callable[[Bar], Tuple[float, ...]], colour: Dict[int, str]) -> str:
    parts = []
    for bar in bars:
        x, y, width, height = place(bar)
        tip = escape(f"{bar.label}, {bar.clock_mhz} MHz, {bar.start_s:.6g} s + {bar.duration_s:.6g} s")
        parts.append(
            f'<rect x="{x:.2f}" y="{y:g}" width="{width:.2f}" height="{height:g}" fill="{colour[bar.clock_mhz]}" '
            f'stroke="#80808080" stroke-width="0.4"><title>{tip}</title></rect>'
        )
    return "".join(parts)


def _bars_by_clock(bars: Sequence[Bar], place: Callable[[Bar], Tuple[float, ...]], colour: Dict[int, str]) -> str:
    """One path a clock: a timeline of thousands of ops stays small."""
    outlines: Dict[int, List[str]] = {clock: [] for clock in colour}
    for bar in bars:
        x, y, width, height = place(bar)
        outlines[bar.clock_mhz].append(f"M{x:.1f} {y:g}h{width:.1f}v{height:g}h-{width:.1f}z")
    return "".join(f'<path d="{"".join(path)}" fill="{colour[clock]}"/>' for clock, path in outlines.items())


def timeline(title: str, bars: Sequence[Bar], time_s: float, width: int = 900) -> str:
    """One row a rank, from its first op to the end of the iteration; colour is the clock of an op. Waiting is blank."""
    if not bars or not time_s > 0 or len(bars) > _MOST_OPS:
        why = f"{title}: {len(bars)} ops are too many to draw" if len(bars) > _MOST_OPS else f"{title}: no ops"
        return _svg(width, 40, why, [])
    ranks = max(bar.rank for bar in bars) + 1
    row = 22 if ranks <= 16 else max(6, 352 // ranks)
    right, top = width - _RIGHT, _TOP + 2
    clocks = sorted({bar.clock_mhz for bar in bars})
    colour = {clock: clock_colour(clock, clocks[0], clocks[-1]) for clock in clocks}

    def place(bar: Bar) -> Tuple[float, ...]:
        scale = (right - _LEFT) / time_s
        return _LEFT + bar.start_s * scale, top + bar.rank * row, bar.duration_s * scale, row - 2

    draw = _bars_with_tooltips if len(bars) <= _OPS_WITH_TOOLTIPS else _bars_by_clock
    bottom = top + ranks * row
    parts = [f'<rect x="{_LEFT}" y="{top}" width="{right - _LEFT}" height="{ranks * row - 2}" fill="#80808026"/>']
    parts.append(draw(bars, place, colour))
    for rank in range(0, ranks, max(1, ranks // 16)):
        parts.append(f'<text x="{_LEFT - 6}" y="{top + rank * row + row / 2 + 3:g}" text-anchor="end">rank {rank}</text>')
    for at_s in _ticks(0, time_s, 8):
        x = _LEFT + at_s * (right - _LEFT) / time_s
        parts.append(f'<text x="{x:.1f}" y="{bottom + 12}" text-anchor="middle">{at_s:.4g} s</text>')
    parts.append(_clock_legend(clocks[0], clocks[-1], bottom + 22, right))
    return _svg(width, bottom + 38, title, parts)
