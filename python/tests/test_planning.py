"""Planning in Python against the command: its figures and its refusals."""

import csv
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import lowgear
from planning_inputs import BINARY, COLUMNS, InAFolder, JOB, POWER_W, ROWS, command, plan, require_the_library


def setUpModule():
    require_the_library()


class Frame:
    """As much of a data frame as the package asks of one."""

    def __init__(self, columns):
        self._data = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        return iter(self._data[name])


def emulate_profile(profile):
    return lowgear.emulate(profile, blocking_power_w=POWER_W, microbatches=4)


class TestPlan(InAFolder):
    def test_figures_are_those_of_the_command(self):
        result = plan(self.profile_file())
        summary = json.loads(
            command("plan", "--profile", "profile.csv", "--microbatches", "2", "--blocking-power", str(POWER_W), "--plans",
                    "3", "--out", "out", "--json", folder=self.folder))
        rows = csv.DictReader(io.StringIO((self.folder / "out/frontier.csv").read_text()))
        self.assertEqual([tuple(map(float, row.values())) for row in rows], list(result.frontier))
        self.assertEqual([dict(row._asdict()) for row in result.plans], summary["plans"])
        self.assertEqual(tuple(result.baseline), (summary["baseline"]["time_s"], summary["baseline"]["energy_j"]))
        self.assertEqual(result.plan(0).document, json.loads((self.folder / "out/plans/00000.json").read_text()))
        self.assertEqual(result.files["certificate.txt"], (self.folder / "out/certificate.txt").read_bytes())

    def test_energy_adds_up_from_the_profile(self):
        cells = {(row["stage"], row["instruction"], row["frequency"]): (row["time"], row["energy"]) for row in ROWS}
        for row in (result := plan()).plans:
            ops = result.plan(row.plan).ops
            own = [cells[op.stage, op.instruction, op.clock_mhz] for op in ops]
            waiting_s = 2 * row.time_s - sum(time_s for time_s, _ in own)
            self.assertAlmostEqual(row.energy_j, sum(energy_j for _, energy_j in own) + POWER_W * waiting_s, places=9)
            self.assertAlmostEqual(row.time_s, max(op.start_s + op.duration_s for op in ops), places=12)

    def test_rows_columns_frames_tables_and_files_are_the_same_profile(self):
        expected = plan(self.profile_file())
        with_units = {"frequency": "clock_mhz", "time": "time_s", "energy": "energy_j"}
        named = [{with_units.get(name, name): value for name, value in row.items()} for row in ROWS]
        floats = dict(COLUMNS, stage=[float(s) for s in COLUMNS["stage"]], frequency=[float(f) for f in COLUMNS["frequency"]])
        for profile in (ROWS, iter(ROWS), COLUMNS, Frame(COLUMNS), named, floats, str(self.profile_file())):
            with self.subTest(type(profile)):
                result = plan(profile)
                self.assertEqual(result.frontier, expected.frontier)
                self.assertEqual(result.plans, expected.plans)

    def test_a_profile_and_the_least_options_are_enough(self):
        by_default = lowgear.plan(ROWS, microbatches=2, blocking_power_w=POWER_W)
        words = ["plan", "--profile", str(self.profile_file()), "--microbatches", "2", "--blocking-power", str(POWER_W)]
        summary = json.loads(command(*words, "--out", "out", "--json", folder=self.folder))
        self.assertEqual(by_default.document["switch_latency"], summary["switch_latency"])
        self.assertEqual([row._asdict() for row in by_default.plans], summary["plans"])

    def test_late_clocks_are_shown_where_they_are_requested_ahead(self):
        ahead = plan()
        latency = ahead.document["switch_latency"]
        self.assertEqual((latency["source"], latency["asked_ahead_s"]), ("assumed", 0.025))
        self.assertGreaterEqual(ahead.late.time_s, ahead.shown_plan.time_s)
        self.assertIn("; if clocks came 25 ms late: ", repr(ahead))
        delayed = plan(switch_latency_s=0.001, ask_ahead=False)
        self.assertEqual(delayed.document["switch_latency"]["planned_with_s"], 0.001)
        self.assertIsNone(delayed.late)
        self.assertNotIn("late", repr(delayed))

    def test_unknown_parameters_name_the_closest_one(self):
        cases = {"microbatch": "microbatches", "blocking_power": "blocking_power_w", "blocking_pwr": "blocking_power_w",
                 "switch_latency": "switch_latency_s", "switch-latency": "switch_latency_s", "ask-ahead": "ask_ahead",
                 "virtual_stages": "chunks", "deadlines": "deadline_s", "envpipe_step": "envpipe_steps"}
        for name, meant in cases.items():
            with self.subTest(name):
                with self.assertRaisesRegex(lowgear.UnknownParameter, f"no option {name}; did you mean {meant}\\?$"):
                    plan(**{name: 3})
        with self.assertRaisesRegex(lowgear.UnknownParameter, "no option sideways$"):
            plan(sideways=3)
        with self.assertRaisesRegex(TypeError, "no option straggler; did you mean slow_stages"):
            lowgear.simulate(plan(), straggler={1: 1.2})
        with self.assertRaisesRegex(lowgear.UnknownParameter, "no option sideways; there are folder, keep, out"):
            lowgear.thin("folder", keep=3, out="out", sideways=1)
        with self.assertRaisesRegex(lowgear.UnknownParameter, "no option max_ctp; did you mean max_cp"):
            lowgear.search(JOB, max_ctp=3)

    def test_unknown_functions_name_the_closest_one(self):
        with self.assertRaisesRegex(AttributeError, r"lowgear.plan\(...\).policies compares policies"):
            lowgear.compare  # noqa: B018
        with self.assertRaisesRegex(AttributeError, "no attribute 'simulat'; did you mean simulate"):
            lowgear.simulat  # noqa: B018

    def test_other_options_of_the_command_are_passed_on(self):
        self.assertEqual(plan(policy="envpipe", plans=None, envpipe_reconfig="greedy").document["policy"], "envpipe")
        with self.assertRaisesRegex(lowgear.InvalidUse, "^memory_limit: "):
            plan(memory_limit=1e9)

    def test_values_of_another_kind_are_refused(self):
        cases = [({"microbatches": True}, "^microbatches: .*true"),
                 ({"profile": 7}, "profile: expected rows"), ({"schedule": 7}, "schedule: expected a name"),
                 ({"blocking_power_w": object}, "blocking_power_w: expected a number in W"),
                 ({"slow_ranks": [1.2]}, r"slow_ranks: expected a dict from rank to factor such as \{1: 1.2\}")]
        for given, message in cases:
            with self.subTest(given), self.assertRaisesRegex(lowgear.InvalidUse, message):
                plan(**given)

    def test_messages_have_a_call_for_an_example(self):
        with self.assertRaisesRegex(
                lowgear.InvalidUse, r"^missing: microbatches; for example: lowgear\.plan\(profile, microbatches=32\)$"):
            plan(microbatches=None)

    def test_a_latency_of_an_iteration_is_refused(self):
        with self.assertRaisesRegex(
                lowgear.InvalidUse, "9 s after the request.*correct switch_latency_s, or add ask_ahead=False to plan"):
            plan(switch_latency_s=9)
        self.assertEqual(plan(switch_latency_s=9, ask_ahead=False).document["switch_latency"]["planned_with_s"], 9)

    def test_a_column_of_another_unit_is_refused(self):
        milliseconds = [dict(row, time_ms=1e3 * row["time"]) for row in ROWS]
        for row in milliseconds:
            del row["time"]
        with self.assertRaisesRegex(
                lowgear.InvalidUse, '^profile, header: the column "time_ms" is in milliseconds; divide its values by 1000'):
            plan(milliseconds)

    def test_an_address_is_no_file(self):
        with self.assertRaisesRegex(lowgear.InvalidUse, "^https://example.org/p.csv: cannot be read: .*not addresses"):
            plan("https://example.org/p.csv")

    def test_both_names_of_a_figure_are_refused(self):
        for name, second in (("frequency", "clock_mhz"), ("time", "time_s"), ("energy", "energy_j")):
            both = [dict(row, **{second: row[name]}) for row in ROWS]
            columns = dict(COLUMNS, **{second: COLUMNS[name]})
            some = [dict(row) for row in ROWS]
            some[3][second] = some[3].pop(name)
            for profile in (both, columns, Frame(columns), some):
                for call in (plan, emulate_profile):
                    with self.subTest(f"{name} {type(profile)} {call.__name__}"):
                        with self.assertRaisesRegex(
                                lowgear.InvalidUse, f"profile: columns '{name}' and '{second}' are two names of one figure"):
                            call(profile)

    def test_both_names_of_a_figure_are_refused_in_files(self):
        lines = self.profile_file().read_text().splitlines()
        path = self.folder / "both.csv"
        path.write_text("\n".join([lines[0] + ",time_s", *(line + ",1" for line in lines[1:])]))
        with self.assertRaisesRegex(lowgear.InvalidUse, "both.csv:1:.*two names of one figure"):
            plan(path)

    def test_a_column_occurs_once(self):
        with self.assertRaisesRegex(lowgear.InvalidUse, "column 'time' occurs twice"):
            plan([dict(row, **{" time": row["time"]}) for row in ROWS])

    def test_a_row_that_no_gpu_can_have_measured_is_refused_by_its_number(self):
        rows = [dict(row) for row in ROWS]
        rows[2]["energy"] *= 1000
        with self.assertRaisesRegex(lowgear.InvalidUse, "profile, row 2: .*more than any GPU draws"):
            plan(rows)

    def test_pandas_frames_in_and_out(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("SKIPPED: there is no pandas (Debian: python3-pandas)")
        result = plan(pandas.DataFrame(ROWS))
        self.assertEqual(result.plans, plan().plans)
        self.assertEqual(list(result.to_dataframe()["energy_j"]), result.plans["energy_j"])
        self.assertEqual(result.frontier.to_dataframe().shape, (len(result.frontier), 2))

    def test_pandas_is_not_loaded_without_a_frame(self):
        script = (
            "import sys, lowgear; assert 'lowgear.planning' not in sys.modules; lowgear.plan; "
            "assert 'lowgear.planning' in sys.modules; print('pandas' in sys.modules)")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "False\n")

    def test_a_schedule_is_a_name_a_file_lists_or_a_pipeline_order(self):
        order = [["0F0", "0F1", None, "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]]
        path = self.folder / "order.csv"
        path.write_text("0F0,0F1,,0B0,0B1\n1F0,1B0,1F1,1B1\n")
        expected = plan(schedule=path, microbatches=None)
        for schedule in (order, {1: order[1], 0: order[0]}, "1f1b"):
            self.assertEqual(plan(schedule=schedule).frontier, expected.frontier)
        with self.assertRaisesRegex(lowgear.InvalidUse, "there is no rank 1, though rank 2 is there"):
            plan(schedule={0: order[0], 2: order[1]})

    def test_recomputations_are_ops_of_their_own(self):
        result = plan(schedule="merak-early-recompute", recomputation_share=1)
        kinds = [(op.rank, op.instruction, op.microbatch) for op in result.plan(0).ops]
        self.assertIn((0, "recomputation", 1), kinds)
        self.assertIn((1, "recomputing_backward", 1), kinds)
        self.assertIn("R1 of stage 0", result.plan(0)._repr_html_())
        order = [["0F0", "0F1", "0C0", "0R1", "0B1"], ["1F0", "1C0", "1F1", "1C1"]]
        self.assertEqual(plan(schedule=order, recomputation_share=1).frontier, result.frontier)
        with self.assertRaisesRegex(lowgear.InvalidUse, "recomputation_share"):
            plan(schedule=order)

    def test_blocking_power_by_rank(self):
        expected = plan(blocking_power_w=POWER_W)
        self.assertEqual(plan(blocking_power_w=[80, 80.0]).plans, expected.plans)
        self.assertEqual(plan(blocking_power_w={1: 80, 0: 80}).plans, expected.plans)
        self.assertEqual(plan(blocking_power_w=[80, 60]).blocking_power_w, [80, 60])

    def test_one_plan_for_a_deadline(self):
        for options in ({"deadline_s": 0.5}, {"slowdown_pct": 3}, {"straggler_factor": 1.1}):
            result = plan(plans=None, **options)
            self.assertEqual(len(result.plans), 1)
            self.assertLessEqual(result.plans[0].time_s, result.plans[0].deadline_s * (1 + 1e-12))
        self.assertLessEqual(plan(plans=None, deadline_s=0.5).shown_plan.time_s, 0.5)
        with self.assertWarnsRegex(lowgear.LowgearWarning, r"deadline of 100 s is later than T\* ="):
            plan(plans=None, deadline_s=100)

    def test_slow_ranks_and_power_caps_are_those_of_the_command(self):
        profile = self.profile_file()
        options = {"--slow-rank=1=1.2": {"slow_ranks": {1: 1.2}}, "--power-cap=250": {"power_cap": 250}}
        for number, (option, parameter) in enumerate(options.items()):
            result = plan(profile, plans=None, slowdown_pct=2, **parameter)
            command("plan", "--profile", "profile.csv", "--microbatches", "2", "--blocking-power", str(POWER_W),
                    "--slowdown", "2", option, "--out", f"out{number}", folder=self.folder)
            written = (self.folder / f"out{number}/plans/00000.json").read_bytes()
            self.assertEqual(result.files["plans/00000.json"], written)

    def test_switch_latency_is_in_seconds(self):
        result = plan(switch_latency_s=0.002, ask_ahead=False)
        self.assertEqual(json.loads(result.files["run.json"])["late_by_s"], 0.002)

    def test_a_plan_whose_clocks_are_asked_for_ahead_knows_no_latency(self):
        result = plan(switch_latency_s=0.002, ask_ahead=True)
        self.assertEqual(json.loads(result.files["run.json"])["late_by_s"], 0)
        self.assertEqual(json.loads(result.files["plans/00000.json"])["clock_lead_s"], 0.002)

    def test_a_sandwich_has_a_bound_of_its_own(self):
        result = plan(frontier="sandwich", epsilon=0.01)
        self.assertEqual(result.method, "sandwich")
        for above, below in zip(result.frontier, result.lower_bound):
            self.assertLessEqual(below.energy_j, above.energy_j * (1 + 1e-12))

    def test_a_searched_order_is_printed_drawn_and_saved(self):
        result = plan(schedule="auto")
        self.assertEqual(result.method, "exact")
        self.assertIn("exact", repr(result))
        self.assertIn("<svg", result._repr_svg_())
        self.assertIn("<table", result._repr_html_())
        result.save(self.folder / "saved")
        self.assertTrue(lowgear.verify(self.folder / "saved"))

    def test_the_folder_of_a_user(self):
        out = self.folder / "out"
        result = plan(out=out)
        self.assertEqual((out / "report.html").read_bytes(), result.files["report.html"])
        saved = self.folder / "saved"
        result.save(saved)
        self.assertTrue(lowgear.verify(saved))
        with self.assertRaisesRegex(FileExistsError, "exists already; name another folder, or delete it first$"):
            result.save(saved)
        with self.assertRaisesRegex(lowgear.InvalidUse, "^folder: it is empty; name a new folder$"):
            result.save("")
        (out / "notes.txt").write_text("mine")
        with self.assertRaisesRegex(lowgear.InvalidUse, "notes.txt"):
            plan(out=out)

    def test_a_relative_folder_is_below_the_present_one(self):
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        self.profile_file()
        plan("profile.csv", out="out")
        self.assertTrue((self.folder / "out/plans.csv").is_file())

    def test_results_are_values(self):
        result = pickle.loads(pickle.dumps(plan()))
        self.assertTrue(lowgear.verify(result))
        self.assertEqual(lowgear.simulate(result).energy_j, result.shown_plan.energy_j)

    def test_nothing_is_written(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        with mock.patch.dict(os.environ, TMPDIR=str(self.folder)):
            lowgear.simulate(lowgear.replan(plan(), layers=4).plan)
            lowgear.estimate(JOB)
            with self.assertRaises(lowgear.InvalidUse):
                plan(microbatches=0)
        self.assertEqual(list(self.folder.iterdir()), [])


class TestRefusals(InAFolder):
    def refused(self, *words, profile=None, **options):
        with self.assertRaises(lowgear.InvalidUse) as caught:
            plan(profile, **options)
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertNotIn(os.path.join(tempfile.gettempdir(), "lowgear-"), str(caught.exception))
        self.assertNotIn("--", str(caught.exception))

    def changed(self, **cell):
        return [dict(ROWS[0]), {**ROWS[1], **cell}, *ROWS[2:]]

    def test_cells_that_are_no_measurements_are_named_by_row(self):
        self.refused("profile, row 1", "time", "nan", profile=self.changed(time=float("nan")))
        self.refused("profile, row 1", "time", "-1", profile=self.changed(time=-1))
        self.refused("profile, row 1", "energy", "inf", profile=self.changed(energy=float("inf")))
        self.refused("profile, row 1", "frequency", "1200.5", profile=self.changed(frequency=1200.5))
        self.refused("profile, row 1", "sideways", profile=self.changed(instruction="sideways"))
        self.refused("profile, row 1", "energy", profile=self.changed(energy=None))
        self.refused("profile, row 12: stage 0 forward at 1410 MHz is measured in row 0 already", profile=[*ROWS, ROWS[0]])

    def test_profiles_of_another_shape(self):
        for nothing in ([], {}, [{}], ()):
            self.refused("profile", "it is empty", "lowgear profile", profile=nothing)
        self.refused("profile", "no measurements", profile={name: [] for name in COLUMNS})
        self.refused("'energy' or 'energy_j'", profile=[{k: v for k, v in row.items() if k != "energy"} for row in ROWS])
        self.refused("differ in length", profile=dict(COLUMNS, time=[1]))
        self.refused("row 0", "dict", "tuple", profile=[(0, "forward", 1, 1, 1)])
        self.refused("no-such-file.csv", profile="no-such-file.csv")

    def test_parameters_are_named_as_in_python(self):
        self.refused("schedule", "did you mean 1f1b", schedule="1f1")
        self.refused("schedule, ", schedule=[["0F0", "sideways"]])
        self.refused("microbatches", microbatches=0)
        self.refused("microbatches", microbatches=None)
        self.refused("blocking power", "-5", blocking_power_w=-5)
        self.refused("blocking_power_w", blocking_power_w=[80])
        self.refused("deadline_s", plans=None, deadline_s=float("nan"))
        self.refused("deadline 0.001 s", "T_min", plans=None, deadline_s=0.001)
        self.refused("deadline_s", "slowdown_pct", plans=None, deadline_s=1, slowdown_pct=3)
        self.refused("policy", policy="sloth")
        self.refused("perseus_noise_factor", policy="perseus", plans=None, perseus_noise_factor=2)
        self.refused("guess.py", policy="perseus", plans=None, perseus_initial_guess="guess.py")

    def test_unknown_plans(self):
        with self.assertRaisesRegex(lowgear.InvalidUse, "there is no plan 7; there are 0 to 2"):
            plan().plan(7)
        with self.assertRaisesRegex(lowgear.InvalidUse, "profile and blocking_power_w"):
            lowgear.simulate({"format": "lowgear.plan/1"})
        with self.assertRaisesRegex(lowgear.InvalidUse, "not int"):
            lowgear.simulate(3, ROWS, blocking_power_w=1)
        with self.assertRaisesRegex(lowgear.InvalidUse, "not int"):
            lowgear.verify(3)


class TestVerifyAndSimulate(InAFolder):
    def test_what_was_planned_is_verified(self):
        checked = lowgear.verify(plan())
        self.assertTrue(checked)
        self.assertEqual((checked.plans, checked.failures), (3, ()))
        self.assertIn("verified", repr(checked))

    def test_a_plan_that_was_tampered_with_is_not(self):
        result = plan()
        result.files["plans/00000.json"] = result.files["plans/00000.json"].replace(b'"mhz":1410', b'"mhz":990')
        checked = lowgear.verify(result)
        self.assertFalse(checked)
        self.assertTrue(checked.failures)
        self.assertIn("NOT verified", repr(checked))
        with self.assertRaises(lowgear.InvalidUse):
            lowgear.verify(self.folder / "nothing")

    def test_a_replay_gives_what_was_planned(self):
        result = plan()
        for row in result.plans:
            replayed = lowgear.simulate(result.plan(row.plan))
            self.assertEqual((replayed.time_s, replayed.energy_j), (row.time_s, row.energy_j))
            self.assertEqual(replayed.planned, (row.time_s, row.energy_j))
            for ours, theirs in zip(replayed.ops, result.plan(row.plan).ops):
                self.assertEqual(ours[:5], theirs[:5])
                self.assertAlmostEqual(ours.start_s, theirs.start_s, delta=1e-9)
                self.assertAlmostEqual(ours.duration_s, theirs.duration_s, delta=2e-9)
            busy_j = sum(replayed.ops["energy_j"])
            self.assertAlmostEqual(replayed.energy_j, busy_j + POWER_W * sum(replayed.ranks["blocked_s"]), places=9)

    def test_plans_as_values_dicts_and_files(self):
        result = plan()
        path = self.folder / "plan.json"
        result.shown_plan.save(path)
        expected = lowgear.simulate(result)
        for one in (result.shown_plan.document, path):
            replayed = lowgear.simulate(one, ROWS, blocking_power_w=POWER_W)
            self.assertEqual((replayed.energy_j, replayed.ops), (expected.energy_j, expected.ops))

    def test_stragglers_clusters_and_late_clocks(self):
        result = plan()
        slow = lowgear.simulate(result, slow_stages={0: 1.5, 1: 1.25})
        self.assertGreater(slow.time_s, slow.unslowed.time_s)
        self.assertEqual(slow.unslowed, slow.planned)
        cluster = lowgear.simulate(result, pipelines=3, slow_pipeline_factor=1.2)
        self.assertGreater(cluster.cluster.energy_j, 3 * result.shown_plan.energy_j)
        late = lowgear.simulate(result, switch_latency_s=0.01)
        self.assertIsNone(late.late)
        with self.assertRaisesRegex(lowgear.InvalidUse, "slow_stages"):
            lowgear.simulate(result, slow_stages={0: 0.5})


class TestReplan(InAFolder):
    def test_it_is_what_the_command_says(self):
        result = plan()
        result.save(self.folder / "plan")
        words = ["--layers", "3,1", "--freeze", "1", "--scale", "0-1=0.8,0.7", "--microbatches", "6", "--keep-partition"]
        said = json.loads(
            subprocess.run(
                [BINARY, "plan", "--change", self.folder / "plan", *words, "--json"], check=True, capture_output=True
            ).stdout
        )
        change = dict(layers=[3, 1], freeze=1, scales=[(0, 1, 0.8, 0.7)], microbatches=6, keep_partition=True)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)  # the folder has the name of the output that is kept in memory
        for work in (result, self.folder / "plan", "plan"):
            found = lowgear.replan(work, **change)
            self.assertEqual({name: found.document[name] for name in said}, said)
            self.assertEqual(found.after.plan, (found.plan.time_s, found.plan.energy_j))
            self.assertEqual(found.energy_pct, said["per_microbatch"]["against_plan"]["energy_pct"])
            self.assertEqual((found.after.layers, found.after.microbatches), ((3, 1), 6))

    def test_the_new_plan_is_a_value_like_the_old_one(self):
        result = plan(switch_latency_s=0.002, ask_ahead=True)
        change = pickle.loads(pickle.dumps(lowgear.replan(result, layers=4, freeze=1)))
        self.assertAlmostEqual(change.plan.document["clock_lead_s"], 0.002, places=12)
        self.assertTrue(lowgear.verify(change))
        replayed = lowgear.simulate(change.plan)
        self.assertAlmostEqual(replayed.energy_j, change.after.plan.energy_j, places=9)
        self.assertIn("planned", repr(change))
        self.assertIn("<svg", change._repr_html_())
        change.save(self.folder / "saved")
        with self.assertRaisesRegex(lowgear.InvalidUse, "frozen or scaled already"):
            frozen = lowgear.replan(result, layers=4, freeze=2, keep_partition=True, out=self.folder / "frozen")
            self.assertEqual(frozen.after.forward_only_stages, 1)
            lowgear.replan(self.folder / "frozen", layers=4)

    def test_what_is_refused(self):
        result = plan()
        for words, change in (
            ("scales: expected", dict(layers=4, scales=["0-1=2"])),
            ("scales: expected", dict(layers=4, scales=2)),
            ("scales: expected", dict(layers=4, scales=[(0, 1, "x")])),
            ("layers: expected", dict(layers=None)),
            ("out: expected a path, not 5", dict(layers=4, out=5)),
            ("layers names 3 stages", dict(layers=(1, 1, 1))),
            ("at least the last layer", dict(layers=4, freeze=4)),
            ("step_time", dict(layers=4, step_time="late")),
            ("deadline_s", dict(layers=4, deadline_s=1, step_time="own")),
        ):
            with self.assertRaisesRegex(lowgear.InvalidUse, words):
                lowgear.replan(result, **change)
        with self.assertRaisesRegex(lowgear.InvalidUse, "not dict"):
            lowgear.replan({}, layers=4)


if __name__ == "__main__":
    unittest.main()
