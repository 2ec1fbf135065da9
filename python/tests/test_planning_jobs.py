"""Estimates, searches and clusters in Python against the command."""

import json
import os
import statistics
import tempfile
import unittest
from pathlib import Path

import lowgear
from planning_inputs import COLUMNS, InAFolder, JOB, POWER_W, SOURCE, command, require_the_library


def setUpModule():
    require_the_library()


class TestJobs(InAFolder):
    def test_an_estimate_is_that_of_the_command(self):
        path = self.folder / "job.yaml"
        path.write_text(json.dumps(JOB))
        printed = json.loads(command("estimate", "--job", "job.yaml", "--plan", "--json", folder=self.folder))
        for estimate in (lowgear.estimate(JOB, plan=True), lowgear.estimate(path, plan=True)):
            self.assertEqual(estimate.document, printed)
            self.assertEqual(estimate.time_s, printed["iteration"]["time_s"])
            self.assertAlmostEqual(sum(estimate.breakdown["time_s"]), estimate.time_s, places=9)
            self.assertEqual(estimate.frontier["energy_j"], [point["energy_j"] for point in printed["plan"]["frontier"]])
        self.assertEqual(list(self.folder.iterdir()), [path])

    def test_options_are_those_of_the_command(self):
        words = ("--model", "llama-2-7b", "--gpu", "a100-80gb-sxm", "--gpus", "8", "--tp", "2", "--global-batch", "16",
                 "--seq", "4096", "--no-sequence-parallel", "--overlap-tensor", "true", "--json")
        estimate = lowgear.estimate(model="llama-2-7b", gpu="a100-80gb-sxm", gpus=8, tp=2, global_batch=16, seq=4096,
                                    sequence_parallel=False, overlap_tensor=True)
        self.assertEqual(estimate.document, json.loads(command("estimate", *words, folder=self.folder)))

    def test_an_estimated_profile_can_be_planned(self):
        estimate = lowgear.estimate(JOB)
        self.assertEqual({row.stage for row in estimate.profile}, {0, 1})
        result = lowgear.plan(estimate.profile, microbatches=4, blocking_power_w=100, plans=2)
        self.assertTrue(lowgear.verify(result))

    def test_a_job_that_does_not_fit_is_an_answer(self):
        estimate = lowgear.estimate(JOB, gpu="v100-16gb-sxm", recompute="none", dtype="fp16")
        self.assertFalse(estimate.fits)
        self.assertIn("OUT OF MEMORY", repr(estimate))

    def test_the_published_formula(self):
        data = SOURCE.parent.parent / "shared" / "data" / "operators"
        if not data.is_dir():
            self.skipTest(f"SKIPPED: {data} is not there")
        config = data / "configs" / "llemma_7b_4_2_2_P.yml"
        folder = data / "perlmutter"
        published = lowgear.estimate(config, formula="published", operators=folder)
        printed = json.loads(command("estimate", "--peer-formula", "--job", str(config), "--operators", str(folder),
                                     "--json", folder=self.folder))
        self.assertEqual(published.time_s, printed["time_s"])
        # What `one_batch_predict` returned for this file is 9 465 235 us, its documentation says 9 480 819.
        self.assertAlmostEqual(published.time_s * 1e6 / 9_480_819, 1, delta=0.02)
        self.assertAlmostEqual(published.time_s, published.pipeline_s + published.gradients_s + published.update_s, places=9)

    def test_a_search_is_that_of_the_command(self):
        found = lowgear.search(JOB, top=2, threads=1, objective="energy", max_cp=1)
        (self.folder / "job.yaml").write_text(json.dumps(JOB))
        words = ["search", "--job", "job.yaml", "--top", "2", "--objective", "energy", "--max-cp", "1"]
        printed = json.loads(command(*words, "--json", folder=self.folder))
        for document in (printed, found.document):
            document.pop("search_s", None)
        self.assertEqual(found.document, printed)
        self.assertEqual(found.notes, tuple(found.document["notes"]))
        best = found.best[0]
        again = lowgear.estimate({**JOB, "parallel": {}}, **best.options())
        self.assertEqual(again.time_s, best.time_s)
        self.assertEqual(len(found.best), 2)
        table, page = command(*words, folder=self.folder), found._repr_html_()
        for layout in found.best:
            self.assertIn(layout.name, table)
            self.assertIn(layout.name, page)

    def test_refusals(self):
        cases = [
            (lambda: lowgear.estimate(modl="x"), "did you mean model"),
            (lambda: lowgear.estimate({**JOB, "model": "llama-2-8b"}), "^job: .*did you mean"),
            (lambda: lowgear.estimate({**JOB, "modle": 1}), "modle"),
            (lambda: lowgear.estimate({"model": float("nan")}), "job: "),
            (lambda: lowgear.estimate({"model": object()}), "job: "),
            (lambda: lowgear.estimate({}), "^job: "),
            (lambda: lowgear.estimate(7), "^job: expected a dict, or the path of a job file, not 7$"),
            (lambda: lowgear.search(JOB, parallel={"pp": 2}), "^parallel: a dict is a part of a job; leave it out and give"),
            (lambda: lowgear.estimate(JOB, tp=0), "^tp=0: "),
            (lambda: lowgear.estimate(JOB, json=True), "json: this function"),
            (lambda: lowgear.estimate(JOB, formula="theirs"), "lowgear or published"),
            (lambda: lowgear.search(JOB, objective="cost"), "gpu_hour"),
            (lambda: lowgear.search(JOB, top=0), "^top: "),
        ]
        for call, words in cases:
            with self.subTest(words), self.assertRaisesRegex(lowgear.InvalidUse, words) as caught:
                call()
            self.assertNotIn(os.path.join(tempfile.gettempdir(), "lowgear-"), str(caught.exception))


class TestClusters(unittest.TestCase):
    def test_a_cluster_is_emulated_by_degree_of_its_straggler(self):
        rows = lowgear.emulate(COLUMNS, blocking_power_w=POWER_W, microbatches=4, pipelines=8, stragglers=(1.1, 1.4))
        self.assertEqual(rows["straggler"], [1, 1.1, 1.4])
        self.assertEqual(rows["gpus"], [16] * 3)
        self.assertIsNone(rows[0].energy_j)
        for row in rows[1:]:
            self.assertAlmostEqual(row.saving_pct, 100 * (1 - row.energy_j / row.baseline_j))
            self.assertAlmostEqual(row.time_s, row.straggler * rows[0].time_s)

    def test_refusals_name_the_parameter(self):
        for bad, name in (({"stragglers": float("nan")}, "stragglers"), ({"microbatches": [4, 0]}, "microbatches"),
                          ({"perseus_unit_s": 0.01}, "perseus_unit_s")):
            with self.subTest(name), self.assertRaisesRegex(lowgear.InvalidUse, name):
                lowgear.emulate(COLUMNS, **{"blocking_power_w": POWER_W, "microbatches": 4, **bad})

    def test_published_cells_are_a_table(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(lowgear.InvalidUse, "no file of the shape"):
                lowgear.evaluate(folder)
            zeus = Path(folder, "A100")
            zeus.mkdir()
            (zeus / "zeus_global.csv").write_text("model_name,dp,tp,pp,time,energy\ngpt3-xl,1,1,4,100,1000\n")
            cells, points = lowgear.evaluate(folder)
        self.assertEqual(set(cells["state"]), {"no input"})
        self.assertEqual([(point.method, point.time_s) for point in points], [("Zeus, one limit", 100)])
        with self.assertRaises(lowgear.InvalidUse):
            lowgear.evaluate()

    def test_windows_of_a_job_are_a_table(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(lowgear.InvalidUse, "no N.prof.json"):
                lowgear.windows(folder)
            for number, time_s, energy_j in ((0, 1.0, 100.0), (1, 1.0, 100.0), (2, 1.25, 80.0)):
                rank = {"rank": 0, "iter_time": [9, 9, time_s], "iter_energy": [9, 9, energy_j]}
                Path(folder, f"{number}.prof.json").write_text(json.dumps([rank, {**rank, "rank": 1}]))
            rows = lowgear.windows(folder)
            with self.assertRaisesRegex(lowgear.InvalidUse, "windows"):
                lowgear.evaluate(folder)
            self.assertEqual(lowgear.total_time_and_energy(lowgear.load_prof(folder, 2)), (1.25, 160.0))
        self.assertEqual(rows["window"], [0, 1, 2])
        self.assertEqual(rows["energy_j"], [200, 200, 160])
        self.assertEqual(rows["saving_pct"], [None, None, 20])
        self.assertEqual(rows["slowdown_pct"], [None, None, 25])

    def test_time_and_energy_of_a_window_are_those_of_perseus(self):
        """By its formula, max over ranks and sum over ranks, written here with other words."""
        profs = [{"rank": rank, "iter_time": [9.0, 9.0, 1.0 + rank, 3.0 - rank, 2.0], "iter_energy": [9.0, 9.0, 10.0, 20.0 + rank, 5.0]}
                 for rank in range(3)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "7.prof.json")
            path.write_text(json.dumps([{**prof, "time_breakdown": {"forward": [[1.0]]}} for prof in profs]))
            loaded = lowgear.load_prof(folder, 7)
            self.assertEqual(loaded[2].time_breakdown, {"forward": [[1.0]]})
            for warmup_steps in range(5):
                time_s, energy_j = lowgear.total_time_and_energy(loaded, warmup_steps)
                kept = range(warmup_steps, 5)
                slowest = [max(prof["iter_time"][i] for prof in profs) for i in kept]
                total = [sum(prof["iter_energy"][i] for prof in profs) for i in kept]
                self.assertAlmostEqual(time_s, statistics.mean(slowest), places=12)
                self.assertAlmostEqual(energy_j, statistics.mean(total), places=12)
            with self.assertRaisesRegex(lowgear.InvalidUse, "no iteration is left"):
                lowgear.total_time_and_energy(loaded, 5)
            with self.assertRaisesRegex(lowgear.InvalidUse, "different numbers"):
                lowgear.total_time_and_energy([loaded[0], loaded[1]._replace(iter_time=[1.0])])
            path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
            with self.assertRaisesRegex(lowgear.InvalidUse, "Git LFS pointer"):
                lowgear.load_prof(folder, 7)
            path.write_text("[{}]")
            with self.assertRaisesRegex(lowgear.InvalidUse, "without rank"):
                lowgear.load_prof(folder, 7)
        with self.assertRaises(FileNotFoundError):
            lowgear.load_prof("nowhere", 0)

    def test_a_folder_of_plans_is_thinned(self):
        with tempfile.TemporaryDirectory() as folder:
            plans = Path(folder, "plans")
            plans.mkdir()
            for number in range(11):
                (plans / f"freqs_pipeline_{number:05}.py").write_text("[[1410, 1410]]\n")
            self.assertEqual(lowgear.thin(plans, keep="every:5", out=Path(folder, "out")), 3)
            self.assertEqual(len(list(Path(folder, "out").glob("*.py"))), 3)
            with self.assertRaisesRegex(lowgear.InvalidUse, "keep.*every:50"):
                lowgear.thin(plans, keep="half", out=Path(folder, "other"))


if __name__ == "__main__":
    unittest.main()
