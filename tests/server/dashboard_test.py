"""The dashboard in headless Chromium, with made-up figures of mock_server.py: that it is live, says what is what, can
be used with keys, on a telephone and with a thousand ranks, and keeps its own security policy."""

import json
import os
import re
import time
import unittest

from browser import Browser, find_chromium
from mock_server import MockJob, MockServer, mock_budget, scenario

NEEDED = os.environ.get("LOWGEAR_REQUIRE_BROWSER") == "1"
SKIP_CODE = 77
LIVE = "document.documentElement.dataset.connection === 'live'"
TEXT = "document.getElementById('main').innerText"

# Text whose contrast with what is behind it is below 4.5, as [text, contrast]. Disabled controls are exempt (WCAG
# 1.4.3).
WEAK_TEXT = """(() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((v, i) => v * a + below[i] * (1 - a));
  const behind = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const luminance = (rgb) => rgb.map((v) => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const weak = [];
  let checked = 0;
  for (const node of document.querySelectorAll('body *')) {
    const hasText = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    const isHidden = !node.checkVisibility() || node.closest('.visually-hidden, .skip, :disabled, option');
    if (!hasText || isHidden) continue;
    const style = getComputedStyle(node);
    const colour = parse(node instanceof SVGElement ? style.fill : style.color);
    colour[3] *= Number(style.opacity);
    const below = behind(node);
    const value = contrast(over(colour, below), below);
    ++checked;
    if (value < 4.5) weak.push([node.textContent.trim().slice(0, 40), value.toFixed(2)]);
  }
  return {checked, weak};
})()"""


class DashboardTest(unittest.TestCase):
    browser = None

    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.servers = []
        self.expected_complaints = None
        self.browser.resize(1400, 1000)
        self.browser.set_dark(False)

    def tearDown(self):
        self.browser.go("about:blank")
        self.browser.wait("location.href === 'about:blank'")
        complaints, self.browser.complaints = self.browser.complaints, []
        for server in self.servers:
            server.stop()
        expected = self.expected_complaints
        unexpected = [text for text in complaints if not (expected and re.search(expected, text))]
        self.assertEqual(unexpected, [], "the browser's console")

    def serve(self, jobs, **options):
        server = MockServer(jobs, **options).start()
        self.servers.append(server)
        return server

    def open(self, server, where="#/", until=LIVE):
        self.browser.go(server.url + where)
        self.browser.wait(until, f"{where} is shown")

    def open_job(self, job, where="#/jobs/j-1"):
        server = self.serve([job])
        self.open(server, where, f"{LIVE} && document.querySelector('.card .value')")
        return server

    def text(self, selector):
        return self.browser.value(f"document.querySelector({json.dumps(selector)}).innerText")

    def count(self, selector):
        return self.browser.value(f"document.querySelectorAll({json.dumps(selector)}).length")

    def wait_text(self, part, selector="#main"):
        self.browser.wait(f"document.querySelector({json.dumps(selector)}).textContent.includes({json.dumps(part)})",
                          f"{selector} says {part}")


class IsLive(DashboardTest):
    def test_iterations_arrive(self):
        job = MockJob(iterations=60)
        server = self.open_job(job)
        self.browser.wait("document.documentElement.dataset.iteration === '59'")
        self.assertEqual(self.browser.value("document.querySelector('.line-chart').dataset.points"), "60")
        for _ in range(3):
            server.iterate(job)
        self.browser.wait("document.documentElement.dataset.iteration === '62'")
        self.browser.wait("document.querySelector('.line-chart').dataset.points === '63'", "the plot has them")
        self.wait_text(f"{job.gpu(3, 62)['power_w']:.0f}\u00a0W", ".tile:nth-child(4) .power")
        self.browser.wait("document.querySelector('.tile .series').getTotalLength() > 0", "power is drawn")

    def test_a_decision_appears_and_is_said_aloud(self):
        job = MockJob(iterations=60)
        server = self.open_job(job)
        before = self.count(".decisions li")
        server.decide(job, "straggler", "rank 2 is slower by a factor of 1.2")
        self.wait_text("rank 2 is slower by a factor of 1.2", ".decisions li:first-child")
        self.assertEqual(self.count(".decisions li"), before + 1)
        self.assertEqual(self.browser.value("document.getElementById('announcer').lastChild.textContent"),
                         "Decision: rank 2 is slower by a factor of 1.2")

    def test_decisions_of_the_training_program_say_what_changes_and_why(self):
        job = MockJob(iterations=60)
        job.dropped_decisions = 3
        server = self.open_job(job)
        self.assertNotIn("Work", self.text(".facts"))
        job.work = {"layers": 24, "frozen_layers": 6, "precision": "bf16"}
        server.decide(job, "technique", "energy -3.1 % ± 0.4 %", rank=0, technique="freezing", change="cut_off",
                      from_iteration=1200, configuration="6 of 24 blocks frozen")
        self.wait_text("freezing: cut off", ".decisions li:first-child .kind")
        self.assertEqual(self.text(".decisions li:first-child .reason"),
                         "from iteration 1200: 6 of 24 blocks frozen energy -3.1 % ± 0.4 %")
        self.wait_text("6 of 24 layers frozen, bf16", ".facts")
        self.wait_text("; 3 older ones no longer kept", ".decisions-panel .caption")
        self.browser.value("(() => {const kind = document.querySelector('.decisions-panel select');"
                           "kind.value = 'freezing'; kind.dispatchEvent(new Event('change'));})()")
        self.browser.wait("document.querySelectorAll('.decisions li').length === 1", "only that technique is shown")
        self.browser.value("(() => {const box = document.querySelector('.decisions-panel input');"
                           "box.value = '6 OF 24'; box.dispatchEvent(new Event('input'));})()")
        self.browser.wait("document.querySelectorAll('.decisions li:not(.empty)').length === 1",
                          "its configuration counts")

    def test_comes_back_when_the_server_does_and_asks_for_what_it_missed(self):
        self.expected_complaints = "ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_CONNECTION_RESET"
        job = MockJob(iterations=60)
        server = self.open_job(job)
        server.stop()
        self.servers.clear()
        self.wait_text("The server does not respond", ".alerts")
        self.wait_text("Not connected", "#connection")
        for _ in range(5):
            job.iterate()
        job.decide("plan", "decided while nobody looked", 4)
        server.start()
        self.servers.append(server)
        self.browser.wait(LIVE, "it is live again")
        self.browser.wait("document.documentElement.dataset.iteration === '64'")
        self.wait_text("decided while nobody looked", ".decisions li:first-child")
        server.decide(job, "cap", "decided afterwards")
        self.wait_text("decided afterwards", ".decisions li:first-child")
        lines = "[...document.querySelectorAll('.decisions li')]"
        ids = self.browser.value(f"{lines}.map((line) => Number(line.dataset.id))")
        self.assertEqual(ids, sorted((d["id"] for d in job.decisions), reverse=True), "each once, newest first")
        self.assertNotIn("does not respond", self.browser.value(TEXT))

    def test_a_new_plan_brings_frontier_and_timeline(self):
        job = MockJob(iterations=30)
        server = self.open_job(job)
        self.wait_text("The timeline appears with the first plan")
        self.wait_text("Now trying clocks")
        self.wait_text("savings are shown from the first plan on")
        for _ in range(15):
            server.iterate(job)
        self.browser.wait("Number(document.querySelector('.timeline canvas')?.dataset.visibleOps) === 64",
            "the timeline is drawn")
        self.browser.wait("document.querySelector('.frontier .curve')?.getTotalLength() > 200", "the frontier is drawn")
        self.assertEqual(self.count(".frontier .point"), 3)

    def test_profiling_shows_its_progress_and_stays_out_of_the_scale(self):
        job = MockJob(iterations=20)
        for iteration in job.iterations:
            if iteration["trial_mhz"]:
                iteration["energy_j"] *= 40
        server = self.open_job(job)
        self.wait_text("Now trying clocks: clock 3 of 6, about", ".progress")
        self.assertEqual(self.count(".line-chart .span"), 2)
        self.wait_text("profiling, not in the scale", ".legend")
        above = "[...document.querySelectorAll('.line-chart')].map((node) => node.clientHeight - " \
            "node.querySelector('.level.baseline').getAttribute('y1'))"
        self.assertGreater(self.browser.value(above)[1], 50, "the baseline is not at the foot of the plot")
        self.open(server)
        self.wait_text("clock 3 of 6", ".jobs tbody")
        self.wait_text("after the first plan", ".jobs tbody")

    def test_a_decision_and_the_plan_that_repeats_it_are_one_line(self):
        job = MockJob(iterations=60)
        job.decide("straggler", "rank 1 takes 1.2 times as long")
        job.decide("plan", "rank 1 takes 1.2 times as long; from iteration 60", 4)
        self.open_job(job)
        self.wait_text("rank 1 takes 1.2 times as long; from iteration 60", ".decisions li:first-child")
        self.assertEqual(self.count(".decisions li"), 4, "of 5")
        self.assertEqual(self.text(".decisions li:first-child .version"), "plan 2")

    def test_decisions_stand_by_time(self):
        job = MockJob(iterations=60)
        job.decide("straggler", "rank 1 takes 1.2 times as long")
        job.decide("technique", "made before", technique="freeze", change="frozen", from_iteration=3, configuration="one")
        job.decisions[-1]["time_s"] -= 1
        self.open_job(job)
        self.wait_text("rank 1 takes 1.2 times as long", ".decisions li:first-child")
        self.wait_text("made before", ".decisions li:nth-child(2)")

    def test_a_row_without_figures_waits_for_the_new_plan(self):
        job = MockJob(iterations=60)
        summary = {**job.summary(), **dict.fromkeys(("time_s", "energy_j", "saved_pct", "saved_error_pct"))}
        job.summary = lambda: summary
        self.open(self.serve([job]))
        self.wait_text("from the new plan on", ".jobs tbody")

    def test_a_plan_has_the_kind_of_the_decision_that_it_repeats(self):
        job = MockJob(iterations=60)
        job.decide("guard", "iterations are slower than allowed")
        job.decide("plan", "full clocks: iterations are slower than allowed; from iteration 60", 4, purpose="full_clocks")
        self.open_job(job)
        self.wait_text("full clocks: iterations are slower than allowed", ".decisions li:first-child")
        self.assertEqual(self.text(".decisions li:first-child .kind"), "guard")
        self.assertIn("guard", self.text(".decisions-panel select"))

    def test_the_end_of_a_job_reaches_its_ranks_and_gpus(self):
        job = MockJob(iterations=60)
        server = self.open_job(job)
        self.wait_text("W", ".tile .power")
        job.state_override, job.finished_s = "finished", time.time()
        server.send("job", job.summary())
        self.wait_text("ended", ".tile .power")
        self.wait_text("The job has ended: its GPUs are not read any more.")
        self.browser.wait("[...document.querySelectorAll('.ranks tbody tr')].every((row) => "
                          "row.children[3].textContent === 'finished')", "all ranks are finished")

    def test_drift_is_one_line(self):
        job = MockJob(iterations=60)
        for factor in ("1.41", "1.37", "1.04"):
            job.decide("drift", f"all ranks take {factor} times as long as profiled")
        self.open_job(job)
        self.wait_text("all ranks take 1.04 times as long as profiled (3 reports since", ".decisions li:first-child")
        self.assertEqual(self.count(".decisions li"), 4)

    def test_planned_figures_by_a_doubtful_profile_are_marked(self):
        job = MockJob()
        job.problems = [{"kind": "plan_doubtful", "critical": False, "ranks": 4, "gpus": [],
                         "text": "figures of the plan may be wrong: stage 3 draws 271 W", "todo": "profile again"}]
        server = self.open_job(job)
        self.wait_text("Figures of the plan may be wrong: stage 3 draws 271 W. What to do: profile again.", ".alerts")
        self.assertRegex(self.text(".card:nth-child(2) .detail"), r"planned [^·]*\(in doubt\)")
        self.assertRegex(self.text(".card:nth-child(3) .detail"), r"planned [^·]*\(in doubt\)")
        self.wait_text("frontier (planned) (in doubt)", ".legend.marks")
        self.open(server)
        self.wait_text("against plan (in doubt)", ".jobs tbody")

    def test_a_withdrawn_plan_is_not_shown_as_followed(self):
        job = MockJob(iterations=60)
        job.decide("guard", "the job is 4.9 s late")
        job.decide("plan", "full clocks: the job is 4.9 s late; from iteration 60", 4, purpose="full_clocks")
        self.open_job(job)
        self.wait_text("withdrawn by the guard · from iteration 60", ".card:last-child .detail")
        self.assertEqual(self.text(".card:last-child .value"), "full clocks")
        self.wait_text("Full clocks: withdrawn by the guard.")
        self.browser.wait("document.querySelector('.frontier .curve')?.getTotalLength() > 200", "the frontier is drawn")
        self.assertEqual(self.count(".frontier .point"), 2)
        self.assertNotIn("operating point", self.text(".legend.marks"))
        self.assertEqual(self.text(".decisions li:first-child .reason"),
                         "full clocks: the job is 4.9 s late; from iteration 60")

    def test_what_plans_saved_stays_once_they_are_withdrawn(self):
        job = MockJob(iterations=60)
        followed = [i["energy_j"] for i in job.iterations if i["plan_version"] == 3]
        job.decide("plan", "full clocks: late; from iteration 60", 4, purpose="full_clocks")
        summary = {**job.summary(), "saved_pct": None, "saved_error_pct": None,
                   "problems": [{"kind": "baselines_clocks", "critical": False, "ranks": 4, "gpus": [],
                                 "text": "all units have the highest clock", "todo": "nothing"}]}
        job.summary = lambda: summary
        server = self.open_job(job)
        less_pct = 100 * (1 - sum(followed) / len(followed) / summary["baseline"]["energy_j"])
        self.wait_text(f"while it followed plans: \u2212{less_pct:.1f}\u00a0% in {len(followed)} iterations", ".card .detail")
        server.send("decision", job.decide("baseline", "full clocks now take 2.5 s per iteration"))
        self.wait_text("clocks of the baseline", ".card .detail")

    def test_a_stall_is_marked_and_out_of_the_scale(self):
        job = MockJob(iterations=60)
        job.iterations[50]["time_s"] *= 9
        self.open_job(job)
        self.assertEqual(self.count(".line-chart .above"), 1)
        at = "Number(document.querySelector('.line-chart .level.baseline').getAttribute('y1'))"
        self.assertLess(self.browser.value(at), 190, "the others are not at the foot of the plot")

    def test_plans_are_drawn_up_to_iterations_without_one(self):
        job = MockJob(iterations=60)
        for iteration in job.iterations[40:43]:
            iteration["planned_time_s"] = None
        self.open_job(job)
        parts = "document.querySelector('.line-chart .level.planned').getAttribute('d').split('M').slice(1)"
        self.assertEqual(self.browser.value(f"{parts}.length"), 2)
        self.assertTrue(self.browser.value(f"{parts}.every((part) => part.includes('H'))"), "each has a length")

    def test_iterations_whose_energy_is_not_known_are_counted(self):
        job = MockJob(iterations=60)
        energy = ".card:nth-child(3)"
        job.iterations[50]["energy_j"] = None
        self.open_job(job)
        self.wait_text("without 1 iteration whose energy is not known", energy)
        self.assertNotIn("–", self.text(f"{energy} .value"))
        for iteration in job.iterations[40:58]:
            iteration["energy_j"] = None
        self.open_job(job)
        self.wait_text("the energy of 18 iterations is not known: not every rank has one that counts", energy)

    def test_labels_of_plans_stay_in_the_frame(self):
        job = MockJob(iterations=60)
        for version in (4, 5):
            job.decide("plan", f"planned for reason {version}", version)
            job.iterate()
        self.browser.resize(390, 844)
        self.open_job(job)
        outside = "[...document.querySelectorAll('.switch-label')].filter((label) => " \
            "label.getBoundingClientRect().right > label.closest('svg').getBoundingClientRect().right).length"
        self.assertGreater(self.count(".switch-label"), 2)
        self.assertEqual(self.browser.value(outside), 0)

    def test_the_list_follows_jobs(self):
        jobs = [MockJob("j-1", name="first"), MockJob("j-2", name="second")]
        server = self.serve(jobs)
        self.open(server)
        server.iterate(jobs[0])
        self.browser.wait("document.querySelector('.jobs tbody').textContent.includes('60')",
            "the iteration is counted")
        jobs[1].state_override = "observing"
        server.send("job", jobs[1].summary())
        self.wait_text("observing", ".jobs tbody")

    def test_events_may_be_cut_anywhere(self):
        self.open(self.serve([]))
        seen = self.browser.value("""(async () => {
          const {EventParser} = await import('/assets/event_stream.js');
          const text = ': hello\\r\\n\\r\\nevent: job\\r\\ndata: {"a":\\ndata: 1}\\n\\ndata: x\\r\\r' +
            'event: lost\\n\\nevent:job\\ndata:y\\n\\n';
          const results = new Set();
          for (let i = 0; i <= text.length; ++i) {
            for (let j = i; j <= text.length; ++j) {
              const events = [];
              const parser = new EventParser((name, data) => events.push([name, data]));
              [text.slice(0, i), text.slice(i, j), text.slice(j)].forEach((part) => parser.push(part));
              results.add(JSON.stringify(events));
            }
          }
          return [...results];
        })()""")
        self.assertEqual([json.loads(text) for text in seen], [[["job", '{"a":\n1}'], ["message", "x"], ["job", "y"]]])

    def test_events_before_the_first_answer_hide_nothing(self):
        job = MockJob(iterations=60)
        self.open(self.serve([job]))
        seen = self.browser.value("""(async () => {
          const {JobStore} = await import('/assets/job_store.js');
          const store = new JobStore('j-1');
          store.takeIteration({iteration: 60});
          store.takeDecision({id: 1000});
          await store.catchUp();
          return [store.iterations.length, store.decisions.length];
        })()""")
        self.assertEqual(seen, [61, len(job.decisions) + 1])


class SaysWhatIsWhat(DashboardTest):
    def test_a_simulated_job_has_nothing_measured(self):
        self.open_job(MockJob(simulated=True))
        self.wait_text("Energy saved, simulated")
        self.assertNotIn("measured", self.browser.value("document.body.textContent").lower())

    def test_a_measured_job_has_nothing_simulated(self):
        self.open_job(MockJob(simulated=False))
        self.wait_text("Energy saved, measured")
        self.assertNotIn("simulated", self.browser.value(TEXT).lower())

    def test_a_job_that_ended_before_its_plan_contradicts_itself_nowhere(self):
        job = MockJob(iterations=20, state="finished")
        job.finished_s = time.time() - 112
        job.version, job.from_iteration = 7, 25
        server = self.open_job(job)
        self.wait_text("no iteration followed a plan")
        self.wait_text("from iteration 25, which the job did not reach: it ended at 19")
        self.assertEqual(self.browser.value("[...document.querySelectorAll('.card .value')].at(-1).title"),
                         "version 7 in the API")
        self.wait_text("ended", ".tile .power")
        self.wait_text("the job has ended: its GPUs are not read any more", ".card:nth-child(4)")
        self.assertEqual(self.count(".ranks td.problems"), 0, "finished is no problem")
        self.assertNotIn("Attention", self.text(".ranks thead"))
        self.open(server)
        self.wait_text("followed no plan", ".jobs tbody")
        self.assertNotIn("no baseline", self.text(".jobs tbody"))

    def test_invalid_figures_are_not_shown_and_stay_marked_after_the_job(self):
        job = MockJob(iterations=60, state="finished")
        job.finished_s = time.time() - 112
        job.problems = [{"kind": "figures_invalid", "critical": False, "ranks": 4, "gpus": [],
                         "text": "times, energies and savings mean nothing, so no savings are shown: short kernels",
                         "todo": "make kernels longer"}]
        server = self.open_job(job)
        self.wait_text("Times, energies and savings mean nothing", ".alerts")
        values = self.browser.value("[...document.querySelectorAll('.card .value')].map((node) => node.textContent)")
        self.assertEqual(values[:4], ["–"] * 4)
        empty = self.browser.value("[...document.querySelectorAll('.empty')].filter((node) => node.checkVisibility())"
                                   ".map((node) => node.textContent)")
        self.assertEqual(empty, ["Times and energies mean nothing: they are not shown."] * 4)
        row = self.browser.value("[...document.querySelectorAll('.ranks tbody tr:first-child td')]"
                                 ".map((node) => node.textContent)")
        self.assertEqual([row[i] for i in (3, 4, 7, 8)], ["–"] * 4, "factor, compute, power and energy")
        self.wait_text("Times and energies mean nothing", ".ranks .caption")
        self.open(server)
        self.browser.wait("document.querySelector('.job-link')")
        self.assertNotIn("against plan", self.text(".jobs tbody"))

    def test_no_saving_without_a_baseline(self):
        self.open_job(MockJob(iterations=4))
        self.wait_text("shown after the first plan")
        self.assertEqual(self.text(".card .value"), "–")
        self.assertNotRegex(self.browser.value(TEXT), r"saved[^%]*\d %")

    def test_a_saving_stands_with_its_error_and_its_baseline(self):
        job = MockJob(simulated=False)
        self.open_job(job)
        self.assertEqual(self.text(".card .value"), f"{job.summary()['saved_pct']:.1f} ± 0.3\u00a0%")
        self.assertRegex(self.text(".card .detail"),
            r"against a measured baseline: 6100.J ± 8\.8.J, 5 iterations at full clocks")

    def test_a_saving_within_its_error_is_not_shown_as_one(self):
        job = MockJob()
        summary = job.summary()
        job.summary = lambda: {**summary, "saved_pct": 0.2, "saved_error_pct": 0.3}
        self.open_job(job)
        self.assertEqual(self.browser.value("document.querySelector('.card .value').className.trim()"), "value")

    def test_silent_ranks_and_stragglers_are_alerts(self):
        job = MockJob()
        job.silent, job.stragglers = {3}, [{"rank": 2, "factor": 1.2, "cause": "reported"}]
        self.open_job(job)
        self.wait_text("No reports from rank 3", ".alerts")
        self.wait_text("Rank 2 is slower by a factor of 1.20 (reported): the other ranks wait for it, so the plan may lower "
                       "their clocks.", ".alerts")
        self.assertEqual(self.count(".ranks tr.attention"), 2)
        job.purpose, job.reason = "full_clocks", "full clocks: the guard has withdrawn the plan"
        self.open_job(job)
        self.wait_text("the other ranks wait for it.", ".alerts")
        self.assertEqual(self.browser.value("document.querySelector('.chip.state-running').title"), job.reason)
        job.problems = [{"kind": "figures_invalid", "critical": False, "ranks": 4, "gpus": [], "text": "short kernels",
                         "todo": "make kernels longer"}]
        self.open_job(job)
        self.wait_text("wait for it. This stays so while times mean nothing.", ".alerts")

    def test_the_guard_stands_with_what_it_does(self):
        job = MockJob()
        job.settings = {"slowdown_pct": 2, "guard_pct": 2}
        self.open_job(job)
        self.wait_text("guard +4.0\u00a0% = your 2\u00a0% + 2\u00a0%")
        self.wait_text("against the baseline (your 2\u00a0% are against the fastest plan)", ".card:nth-child(2) .detail")
        self.wait_text("above it on balance, plans are withdrawn")

    def test_energies_of_gpus_are_those_of_the_last_iteration(self):
        self.open_job(MockJob())
        self.wait_text("J in the last iteration", ".tile .detail")

    def test_clocks_that_nobody_sets_are_red(self):
        job = MockJob()
        job.problems = [{"kind": "clocks_stuck", "critical": True, "ranks": 2, "todo": "start the agent on these nodes again",
                         "text": "iterations take 11.6 % longer than the baseline: low clocks stayed set on GPU-2 (node-0)",
                         "gpus": [{"rank": 2, "host": "node-0", "gpu_uuid": "GPU-2"}]},
                        {"kind": "gpu_shared", "critical": False, "ranks": 1, "todo": "nothing", "text": "GPU-1 is shared",
                         "gpus": []}]
        self.open_job(job)
        self.wait_text("Iterations take 11.6 % longer than the baseline: low clocks stayed set on the GPU of rank 2 "
                       "(node-0). What to do: start the agent on these nodes again.", ".alerts .bad")
        self.wait_text("GPU-1 is shared", ".alerts .warn")
        self.wait_text("clocks stuck", ".chip.state-failed")

    def test_a_rank_that_refuses_plans_is_an_alert_with_its_reason(self):
        job = MockJob()
        job.refusals = {1: "the schedule differs: iteration 12, unit 5"}
        self.open_job(job)
        self.wait_text("Rank 1 follows no plans: the schedule differs: iteration 12, unit 5", ".alerts")
        self.wait_text("follows no plans", ".ranks tr.attention")

    def test_failed_ranks_need_attention(self):
        job = MockJob(state="finished")
        job.finished_s, job.failures = time.time(), {0: "RuntimeError", 1: "exit status 3"}
        self.open_job(job)
        self.wait_text("4 ranks; 2 failed.", ".ranks .caption")
        self.wait_text("failed: RuntimeError", ".ranks tr.attention .problems")
        self.assertEqual(self.count(".ranks tr.attention"), 2)

    def test_the_guard_withdraws_nothing_while_no_plan_is_followed(self):
        job = MockJob()
        job.settings = {"slowdown_pct": 0, "guard_pct": 0}
        self.open_job(job)
        self.wait_text("it withdraws plans once", ".alerts .bad")
        job.purpose = "full_clocks"
        self.open_job(job)
        self.wait_text("Plan", ".card:nth-child(5)")
        self.assertNotIn("it withdraws plans", self.text(".alerts"))

    def test_an_unknown_job(self):
        self.expected_complaints = "status of 404"
        self.open(self.serve([]), "#/jobs/j-9", "document.querySelector('.message-title')?.textContent === 'Not found'")

    def test_no_jobs(self):
        self.open(self.serve([]))
        self.wait_text("No jobs yet")
        self.wait_text("LOWGEAR_SERVER_TOKEN_FILE=train.token lowgear run --server http://", ".message code")
        self.wait_text("--server unix:/run/lowgear-server/server.sock needs none")

    def test_a_server_without_tokens_for_jobs_names_its_socket(self):
        server = self.serve([])
        server.job_tokens = False
        self.open(server)
        self.wait_text("lowgear run --server unix:/run/lowgear-server/server.sock -- torchrun", ".message code")
        self.assertNotIn("train.token", self.browser.value(TEXT))

    def test_a_job_that_waits_for_ranks(self):
        job = MockJob(iterations=0, state="registering")
        job.registered = 2
        self.open_job(job)
        self.wait_text("waiting for all ranks to register: 2 of 4 ranks")
        self.wait_text("No iteration has been reported yet")
        self.wait_text("There are no decisions yet")

    def test_a_job_whose_ranks_ended_before_the_others_came_has_not_ended_yet(self):
        job = MockJob(iterations=0, state="registering")
        job.registered, job.reason = 2, "2 of 4 ranks had registered, and ended"
        rank = job.rank
        job.rank = lambda number: {**rank(number), "finished": True}
        self.open_job(job)
        self.wait_text("2 of 4 ranks had registered, and ended", ".progress")
        self.wait_text("The ranks that had registered have ended: their GPUs are not read any more.")
        self.assertNotIn("The job has ended", self.browser.value(TEXT))

    def test_hostile_names_are_text(self):
        hostile = '<img id="injected" src=x onerror="throw 1">'
        job = MockJob(name=hostile)
        job.decide(hostile, hostile, 3)
        server = self.open_job(job)
        self.assertEqual(self.text("h1"), hostile)
        self.open(server)
        self.wait_text(hostile)
        self.assertEqual(self.count("#injected"), 0)


class AsksForAToken(DashboardTest):
    def test_until_it_is_right(self):
        self.expected_complaints = "status of 401"
        server = self.serve([MockJob()], token="right")
        self.open(server, until="document.activeElement.closest('.sign-in')")
        self.browser.type("wrong")
        self.browser.key("Enter")
        self.wait_text("The server does not know this token.")
        self.browser.wait("document.activeElement.closest('.sign-in')")
        self.browser.resize(390, 844)
        self.assertGreaterEqual(self.browser.value(
            "document.querySelector('.sign-in button').getBoundingClientRect().top"
            " - document.querySelector('.sign-in input').getBoundingClientRect().bottom"), 8)
        self.browser.type("right")
        self.browser.key("Enter")
        self.browser.wait(LIVE)
        self.wait_text("llama-1b")
        self.assertEqual(self.browser.value("Object.keys(localStorage).join()"), "",
            "the token does not outlive the tab")
        self.browser.value("document.getElementById('sign-out').click()")
        self.browser.wait("document.querySelector('.sign-in')", "it asks again")
        self.assertEqual(self.browser.value("sessionStorage.length"), 0)


    def test_an_address_with_a_one_time_token_signs_in_once(self):
        self.expected_complaints = "status of 401"
        server = self.serve([MockJob()], token="right")
        server.one_time_token = "0123abcd"
        self.open(server, "#token=0123abcd")
        self.wait_text("llama-1b")
        self.assertEqual(self.browser.value("location.hash"), "#/", "the token is not kept in the address")
        self.assertEqual(self.browser.value("sessionStorage.getItem('lowgear.token')"), "right")
        self.browser.value("document.getElementById('sign-out').click()")
        self.browser.wait("document.querySelector('.sign-in')", "it asks again")
        self.browser.value("location.hash = '#token=0123abcd'")
        self.wait_text("this address was used")
        self.assertFalse([path for path in server.requests if "0123abcd" in path], "no address of a request has it")


class ShowsBudgets(DashboardTest):
    BUDGETS = [mock_budget("row-1", 60000, 41000),
               mock_budget("cluster", 180000, 179000, 1.234, {"watts": 178500, "nodes": 40, "silent_nodes": 2}),
               {**mock_budget("row-2", 20000, 25000, 0.5), "measured_w": 19100, "measured_gpus": 64,
                "unknown_hosts": ["nodee-1", "nodee-2"]}]

    def open_budgets(self):
        server = self.serve(scenario("hundred")[:4])
        server.budgets = self.BUDGETS
        self.open(server)
        self.browser.wait("document.documentElement.dataset.jobs === '4'")
        return server

    def test_limit_use_price_and_shares(self):
        server = self.open_budgets()
        names = self.browser.value("[...document.querySelectorAll('.budgets h3')].map((node) => node.textContent)")
        self.assertEqual(names, ["Limit of row-2", "Limit of cluster", "Limit of row-1"], "what is not kept, then what binds")
        for part in ("the limit cannot be kept", "one more kW would bring the training of 1.2 GPUs",
                     "Agents of 40 nodes hold", "2 silent, assumed at full power", "Not held by agents",
                     "reported in the last iterations, by 64 GPUs", "No power reported", "Does not bind",
                     "No job or agent names the hosts nodee-1, nodee-2"):
            self.wait_text(part, ".budgets")
        shares = self.browser.value("[...document.querySelectorAll('.shares li')].map((node) => node.innerText)")
        self.assertEqual(len(shares), 4)
        self.assertIn("40.0\u00a0%", shares[0])
        server.budgets = self.BUDGETS[:1]
        self.browser.wait("document.querySelectorAll('.budgets .card').length === 1", "one is left")
        server.budgets = []
        self.browser.wait("document.querySelector('.budgets').hidden", "there is none")

    def test_on_a_telephone_and_in_both_themes(self):
        for dark in (False, True):
            self.browser.set_dark(dark)
            for width in (390, 1280):
                with self.subTest(dark=dark, width=width):
                    self.browser.resize(width, 900)
                    self.open_budgets()
                    self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth - innerWidth"), 0)
                    seen = self.browser.value(WEAK_TEXT)
                    self.assertGreater(seen["checked"], 30)
                    self.assertEqual(seen["weak"], [])


class ShowsPredictions(DashboardTest):
    """Of a job that plans its own steps."""

    def open_steps(self, iterations=96):
        job = MockJob(iterations=iterations, policy="steps")
        job.reason = "the job plans its own steps"
        return job, self.open_job(job)

    def test_predicted_and_measured_times_are_drawn_and_compared(self):
        job, _ = self.open_steps()
        error = job.prediction()
        self.wait_text(f"off by +{error['mean_error_pct']:.1f}", ".card:last-child .value")
        self.assertIn(f"{error['rms_error_pct']:.1f}\u00a0% rms over {error['iterations']} iterations, "
                      "without 1 iteration that took more than twice the predicted time", self.text(".card:last-child .detail"))
        self.assertIn("without 1 iteration that took more than twice the predicted time",
                      self.text(".card:nth-child(2) .detail"))
        self.browser.wait("document.querySelector('.line-chart .predicted').getTotalLength() > 0", "predictions are drawn")
        self.assertIn("predicted at full clocks", self.text(".legend"))
        self.assertIn("without gradient sums and optimizer", self.text(".panel .caption"))
        # Above its fit a step has no prediction: the line has a gap, and the scale holds both lines.
        gaps = self.browser.value("document.querySelector('.line-chart .predicted').getAttribute('d').split('M').length - 2")
        self.assertEqual(gaps, sum(i["predicted_time_s"] is None for i in job.iterations))
        boxes = self.browser.value("""(() => {
          const box = (css) => document.querySelector(`.line-chart ${css}`).getBBox();
          const [line, clip] = [box('.predicted'), document.querySelector('.line-chart clipPath rect').getBBox()];
          return [line.y - clip.y, clip.y + clip.height - line.y - line.height];
        })()""")
        self.assertGreaterEqual(min(boxes), 0)

    def test_predictions_that_are_all_far_off_are_no_missing_ones(self):
        job = MockJob(iterations=5, policy="steps")
        for iteration in job.iterations:
            iteration["units_time_s"] *= 3
        server = self.open_job(job)
        self.assertEqual(self.text(".card:last-child .value"), "–")
        self.assertEqual(self.text(".card:last-child .detail"), "5 iterations, all of which took more than twice the predicted time")
        self.assertIn("all of which took more than twice the predicted time", self.text(".card:nth-child(2) .detail"))
        self.open(server)
        self.wait_text("more than twice the predictions", ".jobs tbody")

    def test_nothing_is_said_of_plans_that_there_are_none_of(self):
        _, server = self.open_steps()
        for panel in (1, 2):
            self.browser.value(f"document.querySelector('.panel:nth-child({panel}) .behind').open = true")
            self.wait_text("Energy", f".panel:nth-child({panel}) .behind table")
            self.assertNotRegex(self.text(f".panel:nth-child({panel}) .behind table"), "[Pp]lan")
            self.browser.value(f"document.querySelector('.panel:nth-child({panel}) svg').focus()")
            for key in ("ArrowRight", "ArrowLeft"):
                self.browser.key(key)
            self.wait_text("Mean power", "#readout")
            self.assertNotRegex(self.text("#readout"), "[Pp]lan")
        self.expected_complaints = "ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_CONNECTION_RESET"
        server.stop()
        self.servers.clear()
        self.wait_text("Training continues.", ".alerts")

    def test_it_is_no_job_that_waits_for_a_plan(self):
        _, server = self.open_steps()
        self.assertEqual(self.text(".job-title .chip"), "plans its own steps")
        self.assertEqual(self.count(".alerts li"), 0)
        self.assertNotRegex(self.browser.value(TEXT), "no plan|first plan|follow no plan|[Gg]uard")
        self.open(server)
        self.wait_text("predictions off by +", ".jobs tbody")

    def test_a_meaningless_prediction_is_not_shown(self):
        job = MockJob(policy="steps")
        job.problems = [{"kind": "figures_invalid", "critical": False, "ranks": 4, "gpus": [],
                         "text": "times, energies and savings mean nothing", "todo": "make kernels longer"}]
        server = self.open_job(job)
        self.assertEqual(self.text(".card:last-child .value"), "–")
        self.open(server)
        self.browser.wait("document.querySelector('.job-link')")
        self.assertNotIn("predictions off", self.browser.value(TEXT))

    def test_steps_are_read_out_with_their_predictions(self):
        job, server = self.open_steps(3)
        server.iterate(job)
        self.browser.wait("document.documentElement.dataset.iteration === '3'")
        self.browser.value("document.querySelector('.behind').open = true")
        newest = job.iterations[-1]
        error = 100 * (newest["predicted_time_s"] / newest["units_time_s"] - 1)
        self.wait_text(f"{error:+.2f}".replace("-", "\u2212"), ".behind table")
        self.assertIn("of its lengths", self.text(".behind table"))

    def test_readable_on_a_telephone_and_in_both_themes(self):
        for width in (1400, 390):
            for dark in (False, True):
                self.browser.resize(width, 1000, mobile=width < 500)
                self.browser.set_dark(dark)
                self.open_steps()
                self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), width)
                seen = self.browser.value(WEAK_TEXT)
                self.assertGreater(seen["checked"], 30)
                self.assertEqual(seen["weak"], [])

    def test_other_jobs_have_none(self):
        self.open_job(MockJob(iterations=60))
        self.browser.wait("document.querySelector('.line-chart .series')")
        self.assertEqual(self.text(".panel h2"), "Iteration time")
        self.assertFalse(self.browser.value("document.querySelector('.line-chart .predicted').getAttribute('d')"))
        self.assertNotIn("redicted", self.browser.value(TEXT))


class IsUsable(DashboardTest):
    def expect_readable(self):
        seen = self.browser.value(WEAK_TEXT)
        self.assertGreater(seen["checked"], 30)
        self.assertEqual(seen["weak"], [])

    def test_contrast_in_both_themes(self):
        job = MockJob(iterations=60)
        job.silent, job.stragglers = {3}, [{"rank": 2, "factor": 1.2, "cause": "reported"}]
        for dark in (False, True):
            self.browser.set_dark(dark)
            server = self.open_job(job)
            self.browser.wait("document.querySelector('.frontier .point')")
            self.expect_readable()
            for i, state in enumerate(["baseline", "profiling", "finished", "running", "observing"]):
                server.jobs[f"j-{state}"] = MockJob(f"j-{state}", state=state, simulated=i % 2 == 0)
            self.open(server)
            self.browser.wait("document.documentElement.dataset.jobs === '6'")
            self.expect_readable()

    def test_a_job_that_could_not_be_planned_for_is_seen_in_the_list_and_on_its_page(self):
        job = MockJob(iterations=20, state="observing")
        job.reason, job.retry_s = "rank 1 measures nothing", time.time() + 600
        job.stragglers = [{"rank": 2, "factor": 1.2, "cause": "reported"}]
        server = self.serve([job])
        self.open(server)
        self.browser.wait("document.querySelector('.job-link')")
        cell = self.browser.value("document.querySelector('tbody .chip').parentElement.innerText")
        self.assertIn("no plan", cell)
        self.assertIn("1 straggler", cell)
        self.assertEqual(self.browser.value("document.querySelector('tbody .chip').title"), job.reason)
        self.open(server, f"#/jobs/{job.id}")
        self.browser.wait("document.querySelector('.alerts .bad')")
        alert = self.browser.value("document.querySelector('.alerts .bad').innerText")
        self.assertIn("rank 1 measures nothing", alert)
        self.assertRegex(alert, r"The server tries again at \d\d:\d\d:\d\d")

    def test_the_range_of_the_clock_is_shown(self):
        self.open_job(MockJob(iterations=60))
        self.browser.wait("/ MHz \\(\\d+–1410\\)/.test(document.querySelector('.tiles').innerText.replaceAll('\u00a0', ' '))")

    def test_the_theme_can_be_chosen(self):
        server = self.open_job(MockJob())
        background = "getComputedStyle(document.body).backgroundColor"
        light = self.browser.value(background)
        self.browser.wait("document.querySelector('.timeline canvas')")
        self.expected_complaints = "willReadFrequently"  # What this test itself does.
        lane = "document.querySelector('.timeline canvas').getContext('2d').getImageData(200, 140, 1, 1).data.join()"
        light_lane = self.browser.value(lane)
        self.browser.value("document.getElementById('theme').click()")
        self.assertEqual(self.browser.value(background), light, "light was chosen")
        self.browser.set_dark(True)
        self.assertEqual(self.browser.value(background), light, "what was chosen stays")
        self.browser.value("document.getElementById('theme').click()")
        dark = self.browser.value(background)
        self.assertNotEqual(dark, light)
        self.browser.wait(f"{lane} !== '{light_lane}'", "plots are drawn anew")
        self.browser.set_dark(False)
        self.open(server)
        self.assertEqual(self.browser.value(background), dark, "also when it is loaded again")

    def test_with_keys_alone(self):
        self.open(self.serve([MockJob()]))
        self.browser.wait("document.querySelector('.job-link')")
        for _ in range(20):
            self.browser.key("Tab")
            if self.browser.value("document.activeElement.className") == "job-link":
                break
        self.assertEqual(self.browser.value("document.activeElement.className"), "job-link")
        self.assertNotEqual(self.browser.value("getComputedStyle(document.activeElement).outlineStyle"), "none",
            "focus shows")
        self.browser.key("Enter")
        self.browser.wait("document.querySelector('.frontier .point') && document.querySelector('.timeline canvas')")
        seen = {}
        for _ in range(60):
            self.browser.key("Tab")
            plot = self.browser.value("document.activeElement.getAttribute('aria-roledescription') || ''")
            label = self.browser.value("(document.activeElement.getAttribute('aria-label') || '').split('.')[0]")
            if plot and label not in seen:
                for key in ("ArrowRight", "ArrowLeft"):
                    self.browser.key(key)
                seen[label] = self.browser.value("document.getElementById('readout').textContent")
                self.browser.key("Escape")
                self.assertTrue(self.browser.value("document.getElementById('readout').hidden"))
        self.assertEqual(len(seen), 4, seen)
        self.assertIn("Iteration 5", seen["Iteration time"])
        self.assertIn("Planned2.410", seen["Iteration time"])
        self.assertIn("forward, stage 0", next(text for label, text in seen.items() if label.startswith("Timeline")))
        self.assertIn("Baseline (simulated)", next(text for label, text in seen.items() if "frontier" in label))

    def test_every_control_has_a_name(self):
        self.open_job(MockJob())
        nameless = self.browser.value("""[...document.querySelectorAll('button, input, select, a, [tabindex="0"]')]
          .filter((node) => node.checkVisibility() && !node.textContent.trim() && !node.getAttribute('aria-label') &&
            !node.getAttribute('aria-labelledby'))
          .map((node) => node.outerHTML)""")
        self.assertEqual(nameless, [])

    def test_tables_follow_plots(self):
        self.open_job(MockJob(iterations=60))
        self.browser.wait("document.querySelector('.timeline canvas')")
        self.browser.value("document.querySelectorAll('.behind summary').forEach((node) => node.click())")
        self.browser.wait("document.querySelectorAll('.behind table').length === 4")
        tables = "[...document.querySelectorAll('.behind table')]"
        rows = self.browser.value(f"{tables}.map((table) => table.querySelectorAll('tbody tr').length)")
        self.assertEqual(rows, [60, 60, 43, 4])

    def test_dragging_zooms(self):
        self.open_job(MockJob(iterations=60))
        points = "Number(document.querySelector('.line-chart').dataset.points)"
        self.browser.wait(f"{points} === 60")
        box = self.browser.value("document.querySelector('.line-chart').getBoundingClientRect().toJSON()")
        y = box["top"] + 100
        self.browser.mouse("mousePressed", box["left"] + 0.3 * box["width"], y, "left")
        self.browser.mouse("mouseMoved", box["left"] + 0.5 * box["width"], y, "left")
        self.browser.mouse("mouseReleased", box["left"] + 0.5 * box["width"], y, "left")
        self.browser.wait(f"{points} < 30 && {points} > 5", "it shows a part")
        self.browser.value("document.querySelector('[aria-label=\"All iterations\"]').click()")
        self.browser.wait(f"{points} === 60", "it shows all again")

    def test_nothing_moves_the_focus(self):
        job = MockJob()
        server = self.open_job(job)
        self.browser.value("document.querySelector('.ranks [aria-sort] button').focus()")
        for _ in range(3):
            server.iterate(job)
        self.browser.wait("document.documentElement.dataset.iteration === '62'")
        self.assertEqual(self.browser.value("document.activeElement.className"), "sort")

    def test_on_a_telephone_nothing_scrolls_sideways(self):
        for name, where in (("one", "#/jobs/j-1"), ("thousand", "#/jobs/j-1"), ("hundred", "#/"), ("empty", "#/")):
            for width in (360, 3840):
                with self.subTest(name=name, width=width):
                    self.browser.resize(width, 780)
                    self.open(self.serve(scenario(name)), where)
                    self.browser.wait("!document.body.innerText.includes('Loading')")
                    time.sleep(0.3)
                    self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth - innerWidth"), 0)

    def test_ranks_are_cards_on_a_telephone(self):
        self.browser.resize(390, 844)
        self.open_job(MockJob())
        self.browser.wait("document.querySelectorAll('.ranks tbody td').length > 10")
        self.assertLessEqual(self.browser.value(
            "(() => { const box = document.querySelector('.ranks .table-box'); return box.scrollWidth - box.clientWidth; })()"), 0)
        self.assertEqual(self.browser.value(
            "getComputedStyle(document.querySelector('.ranks td[data-label^=Power]'), '::before').content"), '"Power, W"')

    def test_a_long_model_name_hides_no_column(self):
        job = MockJob()
        job.model = "Llama, 8 layers of 256, 4 heads (2 for keys), vocabulary 4096; uniform; bf16, sequences of 128; " * 2
        self.open(self.serve([job]))
        self.browser.wait("document.documentElement.dataset.jobs === '1'")
        for width in (1280, 1920):
            with self.subTest(width=width):
                self.browser.resize(width, 780)
                self.assertLessEqual(self.browser.value(
                    "(() => { const cells = document.querySelectorAll('.jobs tbody td');"
                    " const card = document.querySelector('.jobs table').parentElement.getBoundingClientRect();"
                    " return cells[cells.length - 1].getBoundingClientRect().right - card.right; })()"), 1)

    def test_a_hundred_jobs_can_be_searched(self):
        self.open(self.serve(scenario("hundred")))
        self.browser.wait("document.documentElement.dataset.jobs === '100'")
        self.browser.value("document.querySelector('.jobs input').focus()")
        self.browser.type("gpt2-xl-1")
        self.browser.wait("document.documentElement.dataset.jobs === '5'", "1, 10, 13, 16 and 19 are left")
        self.browser.value("document.querySelector('.jobs input').select()")
        self.browser.type("no such job")
        self.wait_text("No job matches.")

    def test_a_thousand_ranks(self):
        [job] = scenario("thousand")
        server = self.open_job(job)
        self.browser.wait("document.querySelectorAll('.ranks tbody tr').length === 1024")
        self.assertEqual(self.count(".tile"), 24)
        self.wait_text("No reports from ranks 77, 78", ".alerts")
        server.iterate(job)
        self.browser.wait("document.documentElement.dataset.iteration === '60'",
            "events of a thousand GPUs are taken in")
        press = "document.querySelector('.ranks .tools button').click()"
        self.browser.value(press)
        attention = self.count(".ranks tbody tr")
        self.assertEqual(attention, self.count(".ranks tbody tr.attention"))
        self.assertTrue(2 < attention < 40, attention)
        self.browser.value(press)
        factor = "[...document.querySelectorAll('.sort')].find((head) => head.textContent.startsWith('Factor'))"
        self.browser.value(f"{factor}.click()")
        self.browser.value(f"{factor}.click()")
        self.assertEqual(self.text(".ranks tbody tr th"), "300", "the slowest is on top")
        self.browser.value("document.querySelector('.rank-map canvas').focus()")
        for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
            self.browser.key(key)
        self.wait_text("Rank 17", "#readout")
        self.browser.key("Enter")
        self.browser.wait("document.querySelectorAll('.ranks tbody tr').length === 1",
            "the map shows the rank in the table")
        self.assertEqual(self.text(".ranks tbody tr th"), "17")


class KeepsItsPolicy(DashboardTest):
    def test_everything_comes_from_this_server_and_nothing_runs_inline(self):
        server = self.open_job(MockJob())
        loaded = "performance.getEntriesByType('resource')"
        origins = self.browser.value(f"[...new Set({loaded}.map((entry) => new URL(entry.name).origin))]")
        self.assertEqual(origins, [server.url.rstrip("/")])
        violated = self.browser.value("""new Promise((resolve) => {
          document.addEventListener('securitypolicyviolation', (event) => resolve(event.effectiveDirective),
              {once: true});
          const script = document.createElement('script');
          try { script.textContent = 'window.ran = true'; } catch {}
          try { document.head.append(script); } catch {}
          if (window.ran) resolve('');  // what is allowed runs at once
        })""")
        self.expected_complaints = "Content Security Policy|TrustedScript|requires '"
        self.assertIn(violated, ("script-src-elem", "require-trusted-types-for"), "the policy is in force")
        self.assertIsNone(self.browser.value("window.ran"))


if __name__ == "__main__":
    if find_chromium() is None:
        print("THE DASHBOARD IS NOT LOOKED AT IN A BROWSER: install chromium")
        raise SystemExit(1 if NEEDED else SKIP_CODE)
    unittest.main()
