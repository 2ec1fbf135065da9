"""What terminals and notebooks show of results, and tables as values."""

import csv
import io
import unittest
from html.parser import HTMLParser
from xml.etree import ElementTree

import lowgear
from lowgear import planning
from planning_inputs import InAFolder, JOB, plan, require_the_library


def setUpModule():
    require_the_library()


class Tags(HTMLParser):
    """Checks that every tag is closed in order; collects tags and text."""

    def __init__(self, text):
        super().__init__()
        self.opened, self.seen, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert not self.opened, self.opened

    def handle_starttag(self, tag, attrs):
        self.opened.append(tag)
        self.seen.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag, tag

    def handle_data(self, data):
        self.texts.append(data)


class TestTables(InAFolder):
    def test_rows_columns_and_records(self):
        frontier = plan().frontier
        self.assertEqual(frontier.columns, ["time_s", "energy_j"])
        self.assertEqual(frontier["time_s"][0], frontier[0].time_s)
        self.assertEqual(frontier.records()[0], {"time_s": frontier[0].time_s, "energy_j": frontier[0].energy_j})
        self.assertEqual(len(frontier[:2]), 2)
        with self.assertRaisesRegex(KeyError, "energy_j"):
            frontier["power_w"]

    def test_csv_keeps_every_digit(self):
        result = plan()
        text = result.frontier.to_csv()
        self.assertEqual(text.encode(), result.files["frontier.csv"])
        result.to_csv(self.folder / "plans.csv")
        rows = csv.DictReader(io.StringIO((self.folder / "plans.csv").read_text()))
        self.assertEqual([float(row["energy_j"]) for row in rows], result.plans["energy_j"])
        ops = list(csv.DictReader(io.StringIO(result.shown_plan.to_csv())))
        self.assertEqual(len(ops), 8)
        self.assertEqual(ops[0]["energy_j"], "")

    def test_long_tables_are_cut_in_print_only(self):
        policies = plan(microbatches=8).shown_plan.ops
        self.assertIn("... 20 more", repr(policies))
        self.assertEqual(len(policies.to_csv().splitlines()), 33)


class TestNotebooks(InAFolder):
    def svg(self, text):
        root = ElementTree.fromstring(text)
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        return root

    def texts(self, root):
        return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]

    def test_the_frontier_has_a_dot_for_every_plan_and_the_baseline(self):
        result = plan()
        root = self.svg(result._repr_svg_())
        tips = [dot[0].text for dot in root.iter("{http://www.w3.org/2000/svg}circle")]
        self.assertEqual([tip.split(":")[0] for tip in tips], ["plan 0", "plan 1", "plan 2", "full clocks"])
        line = next(root.iter("{http://www.w3.org/2000/svg}polyline")).get("points").split()
        self.assertEqual(len(line), len(result.frontier))
        places = [tuple(map(float, place.split(","))) for place in line]
        self.assertEqual(places, sorted(places), "slower plans lie to the right and use less")
        self.assertIn("iteration time, s", self.texts(root))

    def test_the_timeline_has_every_op_where_it_runs(self):
        one = plan().shown_plan
        root = self.svg(one._repr_svg_())
        bars = [bar for bar in root.iter("{http://www.w3.org/2000/svg}rect") if len(bar)]
        self.assertEqual(len(bars), len(one.ops))
        ends = [float(bar.get("x")) + float(bar.get("width")) for bar in bars]
        self.assertAlmostEqual(max(ends), 900 - 16, delta=0.1)
        self.assertIn(f"{one.ops[0].clock_mhz} MHz", bars[0][0].text)
        self.assertEqual(len({bar.get("fill") for bar in bars}), len(set(one.ops["clock_mhz"])))

    def test_html_parses_and_has_figures_and_tables(self):
        result = plan()
        found = lowgear.search(JOB, top=2, max_cp=1)
        for shown, words in (
            (result, ["plans (planned)", f"{result.plans[0].energy_j:.6g}"]),
            (result.shown_plan, ["rank 1"]),
            (lowgear.simulate(result, slow_stages={0: 1.2}), ["busy_s", "unslowed"]),
            (lowgear.verify(result), ["verified"]),
            (lowgear.estimate(JOB, plan=True), ["activations_bytes", "least energy"]),
            (lowgear.estimate(JOB), ["activations_bytes"]),
            (found, [f"{found.best[0].time_s:.6g}", "winner_s"]),
            (result.policies, ["zeus-global"]),
        ):
            with self.subTest(type(shown).__name__):
                tags = Tags(shown._repr_html_())
                for word in words:
                    self.assertIn(word, " ".join(tags.texts))
                self.assertNotIn("script", tags.seen)
                self.assertNotIn("http", shown._repr_html_().replace("http://www.w3.org/2000/svg", ""))

    def test_texts_are_escaped(self):
        result = plan(gpu="NVIDIA <b>&GPU</b>")
        result.document["warnings"] = ()
        hostile = type(result)(dict(result.document, warnings=["<script>alert(1)</script>"]), result.files)
        self.assertNotIn("<script", hostile._repr_html_())
        self.svg(planning.drawing.energy_over_time("<i>&", [(1, 2)], [planning.drawing.Point("<&>", 1, 2)]))

    def test_drawings_show_the_notebook_s_own_background(self):
        for text in (plan()._repr_svg_(), plan().shown_plan._repr_svg_()):
            self.svg(text)
            self.assertNotIn("#ffffff", text)

    def test_layouts_that_no_other_beats_lie_on_a_line_that_falls(self):
        found = lowgear.search(JOB, top=2, max_cp=1)
        root = self.svg(found._repr_svg_())
        line = next(root.iter("{http://www.w3.org/2000/svg}polyline")).get("points").split()
        places = [tuple(map(float, place.split(","))) for place in line]
        heights = [y for _, y in places]
        self.assertEqual(heights, sorted(heights), "each takes longer and uses less than the one before")
        self.assertIn("first", self.texts(root))
        text = found._repr_html_().split("</p>", 1)[1]
        for word in ("micro-batch", "micro_batch", "cost_usd", "co2_g"):
            self.assertNotIn(word, text)
        self.assertIn("memory_gib", text)

    def test_drawings_fit_their_cell_and_name_a_unit(self):
        points = [(1.0, 2.6e7), (2.0, 2.5e7)]
        text = planning.drawing.energy_over_time("large", points, [], [planning.drawing.Point("here", 1.0, 2.6e7)])
        root = self.svg(text)
        self.assertIn("max-width:100%", root.get("style"))
        self.assertIn("MJ", self.texts(root))
        self.assertNotIn("e+", text.split("</title>")[-1])
        for label in root.iter("{http://www.w3.org/2000/svg}text"):
            if label.text == "here":
                self.assertGreater(float(label.get("y")), 26, "within the drawing")

    def test_large_timelines_stay_small_and_odd_ones_are_drawn(self):
        bar = planning.drawing.Bar
        many = [bar(i % 64, f"F{i}", 1000 + i % 7, i * 0.001, 0.001) for i in range(60_000)]
        text = planning.drawing.timeline("large", many, 60.0)
        self.assertLess(len(text), 3_000_000)
        self.assertEqual(text.count("<path"), 7)
        self.svg(text)
        self.svg(planning.drawing.timeline("none", [], 0))
        self.assertIn("too many", planning.drawing.timeline("huge", many * 2, 60.0))
        self.svg(planning.drawing.energy_over_time("nothing", []))
        self.svg(planning.drawing.energy_over_time("one point", [(1.0, 1.0)]))

    def test_one_has_the_singular_and_zero_no_minus_sign(self):
        self.assertIn("; 1 plan; plan 0: ", repr(plan(plans=1)))
        self.assertNotIn("-0.00 %", repr(plan(plans=1)))
        self.assertEqual([planning.texts.percent(value) for value in (-0.004, -0.006, 0.126)], ["+0.00 %", "-0.01 %", "+0.13 %"])

    def test_terminals_get_text(self):
        result = plan()
        for shown in (result, result.shown_plan, lowgear.simulate(result), lowgear.estimate(JOB)):
            self.assertNotIn("svg", repr(shown))
            self.assertNotIn("\n", repr(shown))
        self.assertIn("3 plans", repr(result))


if __name__ == "__main__":
    unittest.main()
