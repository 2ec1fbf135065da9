"""EnvPipe's reconfiguration, written down from its published rules alone: one list of units for each stage, in the order
in which it runs them. It shares nothing with the product, and is what its decisions are compared with."""

from dataclasses import dataclass

FINISHED = 10  # more decisions than this without a change end it
STEP_MHZ = 30
GREEDY_STEPS = 3


@dataclass
class Unit:
    kind: str  # F or B
    microbatch: int
    clock_mhz: int
    receive: float = 0.0


def unit_order(stages, microbatches, early):
    """(kind, microbatch) by stage: W forwards, then a backward and a forward in turn, then what is left."""
    orders = []
    for stage in range(stages):
        warm_up = min(microbatches, stages - stage + early[stage])
        order = [("F", number) for number in range(warm_up)]
        for number in range(microbatches):
            order.append(("B", number))
            if warm_up + number < microbatches:
                order.append(("F", warm_up + number))
        orders.append(order)
    return orders


class Formulas:
    def __init__(self, orders, clocks_mhz, top_mhz, scale, method):
        self.stages = [[Unit(kind, microbatch, clock) for (kind, microbatch), clock in zip(order, clocks)]
                       for order, clocks in zip(orders, clocks_mhz)]
        self.last_microbatch = max(unit.microbatch for unit in self.stages[0])
        self.top_mhz, self.scale, self.method = top_mhz, scale, method
        self.threshold = None
        self.fin = 0

    @property
    def finished(self):
        return self.method == "default" or self.fin > FINISHED

    def clocks(self):
        return [[unit.clock_mhz for unit in stage] for stage in self.stages]

    def step(self, receives):
        """One training step; returns the path, last unit first, as (stage, place in it)."""
        for stage, times in zip(self.stages, receives):
            for unit, time in zip(stage, times):
                unit.receive = time
        if self.threshold is None:
            self.threshold = self.scale * min(unit.receive for unit in self.stages[-1] if unit.receive != 0)
        path = self.path()
        changed = not all(self.in_envelope(*place) for place in path) and self.raise_clocks(path)
        self.fin = 0 if changed else self.fin + 1
        return path

    def path(self):
        stage, place = 0, len(self.stages[0]) - 1
        path = [(stage, place)]
        while (stage, place) != (0, 0):
            unit = self.stages[stage][place]
            # First difference: where EnvPipe would leave the start of a stage, the sender is next.
            if unit.receive < self.threshold and place > 0:
                place -= 1
            else:
                stage += -1 if unit.kind == "F" else 1
                place = next(i for i, other in enumerate(self.stages[stage])
                             if (other.kind, other.microbatch) == (unit.kind, unit.microbatch))
            path.append((stage, place))
        return path

    def in_envelope(self, stage, place):
        unit = self.stages[stage][place]
        return stage == len(self.stages) - 1 or (unit.kind, unit.microbatch) in (("F", 0), ("B", self.last_microbatch))

    def raise_clocks(self, path):
        units = [self.stages[stage][place] for stage, place in path]
        below = [unit for unit in units if unit.clock_mhz < self.top_mhz]
        if not below or self.method == "default":
            return False
        if self.method == "greedy":
            raised, by_mhz = below[:1], GREEDY_STEPS * STEP_MHZ
        else:
            least = min(unit.clock_mhz for unit in below)
            raised, by_mhz = [unit for unit in below if unit.clock_mhz == least], STEP_MHZ
        for unit in raised:
            # Second difference: no clock above the highest one.
            unit.clock_mhz = min(self.top_mhz, unit.clock_mhz + by_mhz)
        return True

    def text(self, path):
        """As EnvPipe prints it; receives in s."""
        critical = set(path)
        lines = ""
        for number, stage in enumerate(self.stages):
            lines += f"Stage {number} | "
            for place, unit in enumerate(stage):
                word = f"{unit.kind}{unit.microbatch} {unit.clock_mhz} {unit.receive * 1e3:.1f}"
                lines += f"[{word}]" if (number, place) in critical else f" {word} "
            lines += "\n"
        return lines
