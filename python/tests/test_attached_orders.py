"""Jobs with uneven stages, with several stages a rank and with a zero-bubble schedule, from the first recording to the
plan that they follow: the program, the library, the agent, simulated GPUs and a pipeline with the shape of PyTorch's."""

import csv
import json
import subprocess
import sys
import unittest

from test_attached_job import BINARY, HERE, Attached, WithSimulatedGpus

CLOCKS_MHZ = (1980, 1185)
KERNELS_S = {"forward": 0.04, "backward": 0.08, "input_gradient": 0.04, "weight_gradient": 0.05}  # as in the job
KINDS = {"F": "forward", "B": "backward", "I": "input_gradient", "W": "weight_gradient"}
JOB = HERE / "job_torch" / "train.py"


def units_of(row):
    """(kind, stage, microbatch) of a rank's row in PyTorch's notation."""
    letters = [next(letter for letter in KINDS if letter in cell) for cell in row]
    return [(KINDS[letter], int(cell.split(letter)[0]), int(cell.split(letter)[1])) for letter, cell in zip(letters, row)]


class OtherOrders(Attached):
    def run_with_plan_of(self, schedule, *ranks_and_microbatches):
        """What a job of two ranks says that runs 1F1B with four microbatches, with a plan of something else."""
        ranks, microbatches = ranks_and_microbatches or (2, 4)
        profile, order, plan = (self.folder / name for name in ("profile.csv", "order.csv", "plan"))
        profile.write_text("stage,instruction,frequency,time,energy\n" + "".join(
            f"{stage},{kind},1000,0.01,2\n" for stage in range(ranks) for kind in ("forward", "backward")))
        order.write_text("0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n")
        subprocess.run([BINARY, "plan", "--profile", profile, "--schedule", schedule, "--stages", str(ranks),
                        "--microbatches", str(microbatches), "--blocking-power", "80", "--plans", "1", "--out", plan],
                       check=True, capture_output=True, env=self.environment)
        run = self.run_attached(sys.executable, JOB, order, 3, "1,1", PYTHONPATH=str(HERE / "job_torch"), options=(
            "--plan", str(plan), "--record", str(self.folder / "recordings")))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual([len(self.units(rank)) for rank in range(2)], [24, 24], "it is measured")
        return run.stderr

    def test_a_plan_of_the_same_order_is_accepted(self):
        self.assertNotIn("measuring only", self.run_with_plan_of("1f1b"))

    def test_a_plan_of_another_order_is_refused(self):
        said = self.run_with_plan_of("gpipe")
        self.assertEqual(said.count("measuring only"), 1, "rank 0 speaks for both")
        self.assertEqual(said.count("is a plan for another order: unit 2 of pipeline rank 0 is forward of microbatch 2 on "
                                    "stage 0 there, and backward of microbatch 0 on stage 0 in the job"), 2,
                         "once, and again at the end: " + said)

    def test_a_plan_of_another_size_is_refused(self):
        self.assertIn("is a plan for 3 pipeline ranks, the job has 2", self.run_with_plan_of("1f1b", 3, 4))


class Orders(WithSimulatedGpus):
    def setUp(self):
        super().setUp()
        self.environment["PYTHONPATH"] = str(HERE / "job_torch")

    def run_job(self, order, iterations, weights, plan, recordings):
        """The job under a plan; its units by rank and iteration."""
        run = self.run_attached(sys.executable, JOB, order, iterations, weights,
                                options=("--plan", str(plan), "--record", str(recordings)))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr.count("lowgear: attached to torch.distributed.pipelining"), 1, run.stderr)
        self.assertNotIn("measuring only", run.stderr)
        self.assertNotIn("not measured", run.stderr)
        ranks = []
        for path in sorted(recordings.glob("rank-*/units.csv")):
            with open(path, newline="") as file:
                rows = list(csv.DictReader(file))
            ranks.append([[row for row in rows if int(row["iteration"]) == at] for at in range(iterations)])
        return ranks

    def plan_at(self, rows, clock_mhz):
        """A plan with one clock: what a sweep by hand follows."""
        def ops(rank, row):
            return [{"op": kind, "microbatch": microbatch, "mhz": clock_mhz, "start_s": 0, "duration_s": 0.01,
                     "virtual_stage": stage} for kind, stage, microbatch in units_of(row)]

        path = self.folder / f"at-{clock_mhz}.json"
        path.write_text(json.dumps({
            "format": "lowgear.plan/1", "policy": "sweep", "schedule": "job", "deadline_s": 1, "time_s": 1, "energy_j": 1,
            "switches": 0, "microbatches": 1 + max(unit[2] for row in rows for unit in units_of(row)),
            "stages": [{"stage": rank, "ops": ops(rank, row)} for rank, row in enumerate(rows)]}))
        return path

    def sweep(self, order, rows, weights):
        """A stage profile of all clocks: one recording of each, whose rows are returned. Times and energies that are planned
        with are those of the kernels: a busy machine adds to what is measured, and to one stage more than to another."""
        lines = []
        for clock_mhz in CLOCKS_MHZ:
            recordings = self.folder / f"recordings-{clock_mhz}"
            self.run_job(order, 9, weights, self.plan_at(rows, clock_mhz), recordings)
            profile = self.folder / f"profile-{clock_mhz}.csv"
            self.lowgear("profile", recordings, "--blocking-power", 116, "--out", profile)
            header, *measured = profile.read_text().splitlines()
            lines += measured
        header = header.split(",switch_latency")[0]
        measured = list(csv.DictReader([header, *lines]))
        self.profile = self.folder / "profile.csv"
        with open(self.profile, "w", newline="") as file:
            writer = csv.DictWriter(file, header.split(","), extrasaction="ignore")
            writer.writeheader()
            writer.writerows(self.of_its_kernel(row, weights.split(",")) for row in measured)
        return measured

    def of_its_kernel(self, row, weights):
        """The row with the time that its kernel takes on a GPU that does nothing else: no measurement is shorter."""
        if (row["stage"], row["instruction"]) == ("0", "input_gradient"):
            return row  # no kernel
        work_s = float(weights[int(row["stage"])]) * KERNELS_S[row["instruction"]]
        self.assertGreater(float(row["time"]), 0.99 * work_s, row)
        part = int(row["frequency"]) / CLOCKS_MHZ[0]
        time_s = work_s * (0.75 / part + 0.25)
        return {**row, "time": f"{time_s:.9f}", "energy": f"{time_s * (150 + 520 * part ** 2.4):.6f}"}

    def check(self, schedule, weights, ranks, chunks=1):
        """From the job's own order to a plan that it follows; the rows of the profile and the plan."""
        order = self.folder / "order.csv"
        words = ("--stages", ranks, "--microbatches", 4, "--schedule", schedule, "--virtual-stages", chunks)
        made = self.folder / "made.csv"
        made.write_text("stage,instruction,frequency,time,energy\n" + "".join(
            f"{stage},{kind},1000,0.01,2\n" for stage in range(ranks * chunks)
            for kind in ("forward", "backward", "input_gradient", "weight_gradient")))
        self.lowgear("plan", "--profile", made, *words, "--blocking-power", 80, "--plans", 1, "--out", self.folder / "own")
        order.write_text((self.folder / "own" / "schedule.csv").read_text())
        rows = [line.split(",") for line in order.read_text().splitlines()]
        measured = self.sweep(order, rows, weights)

        recorded = self.folder / f"recordings-{CLOCKS_MHZ[0]}" / "schedule.csv"
        self.assertEqual(recorded.read_text(), order.read_text())
        out = self.folder / "plan"
        self.lowgear("plan", "--profile", self.profile, "--schedule", recorded, "--blocking-power", 116, "--slowdown", 15,
                     "--out", out)
        self.assertIn("verified", self.lowgear("verify", out))
        self.assertEqual((out / "schedule.csv").read_text(), order.read_text())
        [plan_file] = (out / "plans").iterdir()
        plan = json.loads(plan_file.read_text())
        followed = self.run_job(order, 4, weights, out, self.folder / "followed")
        for rank, row in enumerate(rows):
            ops = plan["stages"][rank]["ops"]
            self.assertEqual([(op["op"], op.get("virtual_stage", rank), op["microbatch"]) for op in ops], units_of(row))
            for iteration in followed[rank]:
                seen = [(unit["instruction"], int(unit["stage"]), int(unit["microbatch"])) for unit in iteration]
                self.assertEqual(seen, units_of(row))
            # Requested when the agent comes to it, which is not certain for a single unit.
            requested = {int(unit["frequency"]) for iteration in followed[rank] for unit in iteration}
            self.assertTrue(requested - {0})
            self.assertLessEqual(requested - {0}, {op["mhz"] for op in ops})
        return measured, plan

    def test_uneven_stages(self):
        _, plan = self.check("1f1b", "1,1.8", 2)
        clocks_mhz = [[op["mhz"] for op in rank["ops"]] for rank in plan["stages"]]
        self.assertLess(sum(clocks_mhz[0]), sum(clocks_mhz[1]), "the stage with less work runs slower")

    def test_several_stages_a_rank(self):
        measured, _ = self.check("interleaved", "0.5,0.5,0.8,0.5", 2, chunks=2)
        self.assertEqual({int(row["stage"]) for row in measured}, {0, 1, 2, 3})

    def test_zero_bubble_without_input_gradients_on_the_first_stage(self):
        measured, plan = self.check("zb-h1", "1,1.3", 2)
        empty = [row for row in measured if (row["stage"], row["instruction"]) == ("0", "input_gradient")]
        self.assertEqual([int(row["frequency"]) for row in empty], list(CLOCKS_MHZ))
        self.assertEqual(len({(row["time"], row["energy"]) for row in empty}), 1, "the clock makes no difference")
        ops = plan["stages"][0]["ops"]
        for before, op in zip(ops, ops[1:]):
            if op["op"] == "input_gradient":
                self.assertEqual(op["mhz"], before["mhz"], "no change is requested for nothing")


if __name__ == "__main__":
    unittest.main()
