"""Windows of time, and the energy that a GPU draws in them."""

import time
from contextlib import contextmanager
from typing import NamedTuple, Optional


class Measurement(NamedTuple):
    """Time and energy of a GPU during a window. A value is None where the GPU does not report it; energy also where the GPU
    has not reported it all the time."""

    time_s: float
    energy_j: Optional[float]
    energy_uncertainty_j: Optional[float]  # +-, of the counter's steps or of the power readings
    mean_power_w: Optional[float]
    peak_power_w: Optional[float]
    mean_sm_clock_mhz: Optional[float]
    power_capped_s: Optional[float]
    max_temperature_c: Optional[int]
    simulated: bool
    energy_source: Optional[str]  # "counter", or "integrated power" where the counter is missing or cannot be right
    problem: str  # why a value is missing or the counter is not used; empty: no problem

    def __str__(self):
        time = f"{self.time_s:.4g} s"
        if self.energy_j is None:
            return f"{time}, energy not measured: {self.problem or 'the GPU does not report it'}"
        error = "?" if self.energy_uncertainty_j is None else f"{self.energy_uncertainty_j:.2g}"
        source = f"{'simulated' if self.simulated else 'measured'}, by {self.energy_source}"
        return f"{self.energy_j:.4g} J +- {error} J in {time} ({source}{'; ' if self.problem else ''}{self.problem})"


class Window:
    """An energy window; `measurement` is set when it ends. Its values can be read from the window, too:
    `window.energy_j`."""

    def __init__(self, name: str):
        self.name = name
        self.measurement: Optional[Measurement] = None

    def __getattr__(self, name):
        if name not in Measurement._fields:
            raise AttributeError(f"a window has no {name!r}; it has {', '.join(Measurement._fields)}")
        if self.measurement is None:
            raise AttributeError(f"the window has no {name} before it ends; read it after the with block")
        return getattr(self.measurement, name)

    def __dir__(self):
        return sorted({*super().__dir__(), *Measurement._fields})

    def __repr__(self):
        name = f" {self.name!r}" if self.name else ""
        return f"<Window{name}: {'not ended' if self.measurement is None else self.measurement}>"


@contextmanager
def unmeasured_window(window: Window, problem: str):
    """A window that measures time alone."""
    begin_s = time.monotonic()
    try:
        yield window
    finally:
        unknown = dict.fromkeys(Measurement._fields)
        known = {"time_s": time.monotonic() - begin_s, "simulated": False, "problem": problem}
        window.measurement = Measurement(**{**unknown, **known})
