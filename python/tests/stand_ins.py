"""Shared by the tests of adapters: a client that remembers, modules with stand-ins for what they import, peers."""

import importlib.util
import sys
import types
import unittest
import unittest.mock
from pathlib import Path

from lowgear.adapters.marks import Marks

PEERS = Path(__file__).resolve().parents[2].parent / "shared" / "peers"


def needs(path):
    return unittest.skipUnless(path.exists(), f"SKIPPED: {path} is not there, so nothing is run against the real code")


class Session:
    """In place of one with a client: remembers what is marked."""

    def __init__(self, job, refused, earlier=0, is_served=False):
        self.job = job
        self.client = self
        self.earlier = earlier
        self.is_served = is_served
        self.problem = self.problem_of_all = self.not_recorded = None
        self.refusals = [refused] if refused else []
        self.iterations = []  # lists of units
        self.numbers = []
        self.open_units = []
        self.in_iteration = False
        self.ended = []  # numbers of iterations that did, from 0
        self.closed = False
        self.told = []
        self.next_iteration = 0

    def lacks_lengths(self):
        return True

    def tell(self, iteration, amounts):
        self.told.append((iteration, amounts))

    def begin(self, number):
        self.in_iteration = True
        self.iterations.append([])
        self.numbers.append(number)
        self.next_iteration += 1

    def iteration_end(self):
        assert self.in_iteration and not self.open_units
        self.in_iteration = False
        self.ended.append(len(self.iterations) - 1)

    def unit_begin(self, *unit):
        assert self.in_iteration and not self.open_units
        self.open_units.append(unit)
        self.iterations[-1].append(unit)

    def unit_end(self, *unit):
        assert self.open_units == [unit]
        self.open_units.pop()

    def change(self, job):
        self.job = job
        return self.problem

    def refuse(self, reason):
        self.refusals.append(reason)
        return True

    def status(self):
        return types.SimpleNamespace(problem="", server_problem="")

    def close(self, failure):
        self.closed, self.failure = True, failure

    def close_at_exit(self):
        self.close(None)


class Observed(unittest.TestCase):
    """`self.marks` of a process, `self.said` by it, `self.session` once it has one, the newest of `self.sessions`."""

    is_served = False  # by a server

    def setUp(self):
        self.session = None
        self.sessions = []
        self.said = []
        for target, value in (("lowgear.adapters.marks.say", self.said.append),
                              ("lowgear.adapters.marks.atexit.register", lambda *_: None)):
            patch = unittest.mock.patch(target, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.marks = Marks(self.open)

    def open(self, job, refused, earlier):
        self.session = Session(job, refused, earlier, self.is_served)
        self.sessions.append(self.session)
        return self.session

    def assert_all_as_listed(self, iterations):
        """Every iteration ran what its schedule lists, and nothing was refused."""
        self.marks.pause()
        self.assertIsNone(self.marks.refused)
        self.assertEqual(len(self.session.iterations), iterations)
        for units in self.session.iterations:
            self.assertEqual(units, self.session.job.expected)
            self.assertEqual(len(set(units)), len(units))


class Tensor:
    """As much of a tensor on the CPU as is used, of lists."""

    is_cuda = False

    def __init__(self, values):
        self.values = values

    @property
    def shape(self):
        return (len(self.values), len(self.values[0])) if self.dim() == 2 else (len(self.values),)

    def dim(self):
        return 2 if self.values and isinstance(self.values[0], list) else 1

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return (Tensor(row) for row in self.values)

    def __eq__(self, other):
        if self.dim() == 2:
            return Tensor([[value == other for value in row] for row in self.values])
        return Tensor([value == other for value in self.values])

    def __or__(self, other):
        return Tensor([[a or b for a, b in zip(row, others)] for row, others in zip(self.values, other.values)])

    def all(self):
        return all(map(all, self.values))

    def chunk(self, count):
        size = len(self.values) // count
        return [Tensor(self.values[i:i + size]) for i in range(0, len(self.values), size)]

    def sum(self, dimension):
        assert dimension == 1
        return Tensor([sum(row) for row in self.values])

    def diff(self):
        return Tensor([after - before for before, after in zip(self.values, self.values[1:])])

    def nonzero(self):
        return Tensor([[at] for at, value in enumerate(self.values) if value])

    def flatten(self):
        return Tensor([value for row in self.values for value in row])

    def tolist(self):
        return self.values


def stand_ins(*names, **modules):
    """Modules that have every attribute."""
    made = {name: unittest.mock.MagicMock(__path__=[], __spec__=None, __name__=name) for name in names}
    made.update(modules)
    return made


def load(path, name, modules):
    """The module at `path` under `name`, whose imports find `modules`; both stay until the test ends."""
    with unittest.mock.patch.dict(sys.modules, modules):
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    sys.modules[name] = module
    return module
