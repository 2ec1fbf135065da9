"""The decisions of the reconfiguration on random grids of waits, step by step, against the published rules, and against
EnvPipe's own code where a checkout of it is there."""

import json
import os
import random
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import envpipe_peer  # noqa: E402
from envpipe_formulas import Formulas, unit_order  # noqa: E402

TOP_MHZ = 1350
CLOCKS_MHZ = list(range(TOP_MHZ, 780, -30))
SEED = int(os.environ.get("ENVPIPE_SEED", "1"))
JOBS = 50
MOST_STEPS = 40
PEER = envpipe_peer.checkout(os.environ["LOWGEAR_SOURCE"])


class Job:
    """What a random job looks like. `strict`: nothing in which EnvPipe's own code would fail or leave its clocks."""

    def __init__(self, rng, strict):
        self.stages = rng.choice([2, 3, 4, 8])
        self.microbatches = rng.choice([4, 8, 12, 16])
        early = sorted((rng.randrange(0, 4) for _ in range(self.stages - 1)), reverse=True) + [0]
        self.early = [min(count, max(0, self.microbatches - (self.stages - stage)))
                      for stage, count in enumerate(early)]
        self.scale = rng.choice([2, 4, 8, 10])
        self.method = rng.choice(["balanced", "greedy", "default"] if not strict else ["balanced", "greedy"])
        self.type = rng.choice(["envelope", "uniform"])
        # Greedy rises by 90 MHz: from these clocks it ends at the highest one.
        self.optimal = [rng.choice([810, 900, 990, 1080, 1170, 1260] if strict else CLOCKS_MHZ)
                        for _ in range(self.stages)]
        self.orders = unit_order(self.stages, self.microbatches, self.early)
        self.strict = strict

    def header(self):
        return {"early": self.early, "microbatches": self.microbatches, "clocks": CLOCKS_MHZ, "optimal": self.optimal,
                "envpipe": {"type": self.type, "scheduling": "ours", "reconfig": self.method,
                            "reconfigure_threshold_scale": str(self.scale)}}

    def receives(self, rng):
        """Transfers of about 1 ms, and waits at random."""
        rows = []
        for stage, order in enumerate(self.orders):
            row = []
            for place, (kind, _) in enumerate(order):
                received = stage > 0 if kind == "F" else stage < self.stages - 1
                time = rng.uniform(0.8e-3, 1.2e-3) + (rng.uniform(0, 30e-3) if rng.random() < 0.5 else 0)
                # EnvPipe fails where its walk leaves the start of a stage.
                row.append(0.0 if not received else 10.0 if place == 0 and self.strict else time)
            rows.append(row)
        return rows


class Decisions(unittest.TestCase):
    def compare(self, job, other_of, rng):
        """Returns how many grids were compared."""
        program = subprocess.Popen([os.environ["LOWGEAR_ENVPIPE_DECISIONS"]], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)

        def ask(line):
            program.stdin.write(json.dumps(line) + "\n")
            program.stdin.flush()
            return json.loads(program.stdout.readline())

        start = ask(job.header())["clocks"]
        other = other_of(job.orders, start, TOP_MHZ, job.scale, job.method)
        grids = 0
        while not other.finished and grids < MOST_STEPS:
            receives = job.receives(rng)
            decided = ask(receives)
            path = other.step(receives)
            grids += 1
            self.assertEqual([tuple(place) for place in decided["path"]], path, (job.header(), grids))
            self.assertEqual(decided["clocks"], other.clocks(), (job.header(), grids))
            self.assertEqual(decided["text"], other.text(path))
            self.assertEqual(decided["finished"], other.finished, (job.header(), grids))
        program.stdin.close()
        program.stdout.close()
        self.assertEqual(program.wait(), 0)
        return grids

    def test_decisions_are_those_of_the_published_rules(self):
        rng = random.Random(SEED)
        grids = sum(self.compare(Job(rng, strict=False), Formulas, rng) for _ in range(JOBS))
        self.assertGreaterEqual(grids, 1000)

    @unittest.skipUnless(PEER, "SKIPPED: no checkout of casys-kaist/EnvPipe in LOWGEAR_ENVPIPE or ../shared/peers/EnvPipe, "
                               "so nothing is compared with its own code")
    def test_decisions_and_text_are_those_of_its_own_code(self):
        rng = random.Random(SEED + 1)
        peer = lambda *arguments: envpipe_peer.Peer(PEER, *arguments)
        grids = sum(self.compare(Job(rng, strict=True), peer, rng) for _ in range(JOBS))
        self.assertGreaterEqual(grids, 1000)
        print(f"{grids} grids of waits decided as by {PEER}", file=sys.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
