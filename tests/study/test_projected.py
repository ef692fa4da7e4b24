# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/plot with projected summaries: bands behind points, sensitivities, and nothing projected shown as measured."""
import contextlib
import io
import json
import os
import re
import unittest
from xml.etree import ElementTree

import samples
from test_report import changed, plot, read
from test_side import sweep

SVG = "{http://www.w3.org/2000/svg}"


def sections(path):
    return re.findall(r'<section id="(\w+)">', read(path))


def picture(path, key):
    """The wide picture of a section."""
    return ElementTree.fromstring(re.search(rf'<section id="{key}">.*?(<svg.*?</svg>)', read(path), re.S)[1])


class Projected(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        samples.run("a_run")
        samples.study("a_study")
        samples.projection("one.json")
        samples.projection("two.json", ranks=8, times=0.5)
        samples.projection("other.json", ranks=8, times=0.7, machine="h200-sxm", tensor=2)

    def test_beside_a_run(self):
        done = plot("a_run", "--projected", "one.json", "--projected", "two.json", "--svg", "svg", "--png", "png")
        self.assertEqual(done.returncode, 0, done.stderr)
        path = "a_run/report.html"
        self.assertEqual(sections(path), ["projection", "phases_projected", "sensitivities", "sensitivities1", "phases",
                                          "communication", "step_times", "heat_map", "loss", "memory"])
        text = read(path)
        self.assertIn("4 ranks, 40 measured steps; beside it 2 projected steps", text)
        self.assertIn("<title>projected on h100-sxm, tensor 1, 8 ranks: projected 53.5 ms, 48.6 to 58.9</title>", text)
        self.assertIn("<title>measured, tensor 1, 4 ranks: measured 107 ms</title>", text)
        self.assertIn("<dt>Projected on h100-sxm</dt><dd>one.json: 4 ranks, step 107 ms, 97.3 to 118 ms; goodput 93.00 % at best; "
                      "here: measured: &lt;x&gt;</dd>", text)
        self.assertIn("<title>projected on h100-sxm, 8 ranks: gemm 21 ms</title>", text)
        self.assertIn("<title>measured: a_run: gemm 42 ms</title>", text)
        self.assertIn("Step time, projected and measured", read("svg/projection.svg"))
        self.assertIn("phases_projected.png", os.listdir("png"))

    def test_the_point_lies_in_its_band_and_over_it(self):
        self.assertEqual(plot("a_run", "-o", "point.html", "--projected", "one.json").returncode, 0)
        svg = picture("point.html", "projection")
        kinds = [part.tag.replace(SVG, "") for part in svg if part.get("class") == "band" or part.get("r") == "4"]
        self.assertEqual(kinds, ["polygon", "circle"])  # what comes later lies on top
        band = [tuple(map(float, pair.split(","))) for pair in svg.find(f"{SVG}polygon").get("points").split()]
        dot = next(part for part in svg if part.get("r") == "4")
        ys, xs = [y for _, y in band], [x for x, _ in band]
        self.assertTrue(min(ys) < float(dot.get("cy")) < max(ys))
        self.assertTrue(min(xs) < float(dot.get("cx")) < max(xs))
        # 97.3 to 117.7 ms by the same scale as the point's 107 ms: the nominal time lies where the point does.
        nominal = next(part for part in svg if part.get("r") == "3")
        self.assertAlmostEqual(float(nominal.get("cy")), float(dot.get("cy")), delta=0.2)
        self.assertAlmostEqual((max(ys) - float(dot.get("cy"))) / (float(dot.get("cy")) - min(ys)), (1 - 1 / 1.1) / 0.1, delta=0.02)

    def test_beside_a_study(self):
        done = plot("a_study", "-o", "study.html", "--projected", "one.json", "--projected", "two.json", "--projected", "other.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sections("study.html")[:2], ["projection", "phases_projected"])
        self.assertIn("beside it 3 projected steps", read("study.html"))
        svg = picture("study.html", "projection")
        bands = svg.findall(f"{SVG}polygon")
        self.assertEqual([len(band.get("points").split()) for band in bands], [4, 4])  # 4 and 8 ranks; 8 ranks alone
        self.assertEqual(len([part for part in svg if part.get("r") == "4"]), 6)

    def test_sensitivities_go_to_both_sides(self):
        self.assertEqual(plot("one.json", "-o", "alone.html").returncode, 0)
        svg = picture("alone.html", "sensitivities")
        bars = {rect.find(f"{SVG}title").text: rect for rect in svg.iter(f"{SVG}rect")}
        self.assertEqual(list(bars), ["network.bandwidth halved: +25.00 %", "network.bandwidth doubled: -10.00 %",
                                      "device.power halved: +50.00 %", "device.power doubled: +0.00 %"])
        longer, shorter, most, none = bars.values()
        self.assertAlmostEqual(float(most.get("width")) / float(longer.get("width")), 2, delta=0.02)
        self.assertAlmostEqual(float(shorter.get("x")) + float(shorter.get("width")), float(longer.get("x")), delta=0.2)
        self.assertEqual(float(none.get("width")), 0)

    def test_a_projection_alone_is_no_run(self):
        os.makedirs("saved")
        samples.write("saved/summary.json", read("one.json"))
        samples.write("saved/metrics.jsonl", '{"step": 0, "loss": 1}\n{"step": 1, "loss": 1}\n')  # of something else
        for words, path in ((["two.json", "-o", "two.html"], "two.html"), (["saved"], "saved/report.html")):
            done = plot(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = read(path)
            self.assertEqual(sections(path), ["projection", "phases_projected", "sensitivities"])
            self.assertIn("<h1>Projected on h100-sxm</h1>", text)
            self.assertIn("nothing was measured", text)
            self.assertNotIn("measured step", text)
            for what in ("tokens/s", "exposed communication", "goodput"):
                self.assertIn(f"<span>{what}, projected</span>", text)

    def test_errors(self):
        sweep("swept.json")
        for words, part in ((["a_run", "--projected", "a_run/summary.json"], "it is not projected, it has no 'projected': make it with "
                             "shard8 project DECK --machine FILE --json >FILE"),
                            (["a_run", "--projected", "no.json"], "no.json: error: cannot read it: No such file"),
                            (["one.json", "--projected", "a_run/summary.json"], "it is not projected"),
                            (["a_run", "--projected", "swept.json"], "swept.json: error: it is a sweep of many meshes, not one run or "
                             "projection: give one mesh, made with shard8 project without --sweep")):
            done = plot(*words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(part, done.stderr)
        samples.projection("upside_down.json")
        summary = json.loads(read("upside_down.json"))
        summary["projected"]["step_s"]["low"] = 1
        samples.write("upside_down.json", json.dumps(summary))
        done = plot("upside_down.json")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("'projected.step_s' does not ascend", done.stderr)

    def test_values_of_other_types_are_told(self):
        from study.errors import StudyError
        from study.plot import arguments, work
        samples.projection("fuzzed.json")
        whole, refused = json.loads(read("fuzzed.json")), 0
        for text in changed(whole["projected"]):
            samples.write("fuzzed.json", json.dumps({**whole, "projected": json.loads(text)}))
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    work(arguments(["fuzzed.json", "-o", "/dev/null"]))
            except StudyError as error:
                refused += 1
                self.assertEqual(error.code, 2, text)
        self.assertGreater(refused, 50)


if __name__ == "__main__":
    unittest.main()
