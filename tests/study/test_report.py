# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/plot: one file without links, well-formed pictures, and the values that were measured in them."""
import os
import re
import subprocess
import unittest
from xml.etree import ElementTree

import samples

PLOT = os.path.join(os.environ["SHARD8_SOURCES"], "scripts", "plot")


def plot(*words):
    return subprocess.run([PLOT, *words], text=True, capture_output=True, timeout=120, check=False)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        samples.run("a_run", every=True)
        samples.gemms("a_run/overlap.json")
        samples.study("a_study")
        cls.runs = plot("a_run", "--svg", "svg", "--png", "png", "--peak", "0.5", "--bandwidth", "20")
        cls.studies = plot("a_study", "-o", "study.html", "--png", "study_png")

    def svgs(self, path):
        return [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", read(path), re.S)]

    def test_both_are_drawn(self):
        self.assertEqual(self.runs.returncode, 0, self.runs.stderr)
        self.assertEqual(self.studies.returncode, 0, self.studies.stderr)
        for path, keys in (("a_run/report.html", ["phases", "communication", "step_times", "heat_map", "rank_map", "loss",
                                                  "memory", "roofline"]),
                           ("study.html", ["scaling", "phases", "communication", "loss", "memory"])):
            self.assertEqual(re.findall(r'<section id="(\w+)">', read(path)), keys)
            self.assertEqual(len(self.svgs(path)), 2 * len(keys))  # wide and narrow
            for svg in self.svgs(path):
                self.assertIn(svg.get("width"), ("760", "360"))

    def test_it_needs_nothing_else(self):
        for path in ("a_run/report.html", "study.html"):
            text = read(path).replace("http://www.w3.org/2000/svg", "")
            for word in ("http:", "https:", "src=", "@import", "url(", "<script", "<link rel=\"stylesheet\""):
                self.assertNotIn(word, text)
            self.assertIn("prefers-color-scheme: dark", text)
            self.assertIn("&lt;a&amp;b&gt;", text)

    def test_the_parts_of_a_step(self):
        text = read("a_run/report.html")
        # Backward has 60 ms, of which 9 + 30 + 15 + 4 are parts.
        for tip in ("backward: gemm 30 ms", "backward: rest of forward and backward 2 ms", "gather_wait: gather_wait 8 ms",
                    "all_gather shard: exposed 5 ms", "all_gather shard: hidden 15 ms", "all_gather tensor: exposed 10 ms"):
            self.assertIn(f"<title>{tip}</title>", text)

    def test_ranks_over_steps(self):
        text = read("a_run/report.html")
        # Computing is 5 + 12 + 3 + 9 + 30 + 4 ms on rank 0, and r + 1 times as much on rank r; 40 columns of one step.
        self.assertEqual(text.count("<title>rank 0, step 7: 63 ms</title>"), 2)
        self.assertEqual(text.count("<title>rank 3, step 7: 252 ms</title>"), 2)
        self.assertIn("at most 48 ms", text)  # gather_wait and reduce_wait
        self.assertIn("<th>computing, mean ms</th>", text)
        samples.run("another_run", ranks=2)
        self.assertEqual(plot("another_run").returncode, 0)
        text = read("another_run/report.html")
        self.assertNotIn("rank_map", text)
        self.assertIn("With output.timing_ranks a run also records every rank", text)

    def test_products_of_bench_gemm(self):
        samples.run("of_devices")
        samples.gemms_of_devices("of_devices/gemm.json")
        self.assertEqual(plot("of_devices").returncode, 0)
        text = read("of_devices/report.html")
        self.assertIn("Products of shard8 bench gemm, m, 2026-01-01", text)
        # 2 · 4096 · 512 · 256 FLOPs, in 0.25 ms; inputs of one byte, a result of four.
        self.assertIn("<td>4096x512x256 e4m3</td><td>112</td><td>4.29</td>", text)
        self.assertNotIn("8x8x8", text)
        # Runs with overlap: auto keep their choice in overlap.json: it has no times of products.
        samples.run("with_choice")
        with open("with_choice/overlap.json", "w", encoding="utf-8") as file:
            file.write('{"made": {}, "keys": []}')
        self.assertEqual(plot("with_choice").returncode, 0)
        self.assertNotIn("roofline", read("with_choice/report.html"))
        done = plot("with_choice", "--gemms", "with_choice/overlap.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("have no product with product_ms: make them with shard8 bench gemm", done.stderr)

    def test_files_of_their_own_have_legends(self):
        text = read("svg/phases.svg")
        self.assertIn(">tensor_comm</text>", text)
        self.assertIn(">Where the time of a step goes</text>", text)

    def test_bars_are_as_long_as_their_values(self):
        svg = self.svgs("a_run/report.html")[0]
        widths = {}
        for rect in svg.iter("{http://www.w3.org/2000/svg}rect"):
            title = rect.find("{http://www.w3.org/2000/svg}title").text
            widths[title.rsplit(" ", 2)[0]] = float(rect.get("width"))
        self.assertAlmostEqual(widths["backward: gemm"] / widths["forward: gemm"], 30 / 12, delta=0.02)

    def test_scaling_is_that_of_the_study(self):
        text = read("study.html")
        self.assertIn("tensor 2: 8 ranks", text)
        self.assertRegex(text, r"speed-up 3.48 of 4, efficiency 87 %")

    def test_files_of_pictures(self):
        self.assertEqual(sorted(os.listdir("png")), ["communication.png", "loss.png", "memory.png", "phases.png"])
        self.assertIn("scaling.png", os.listdir("study_png"))
        for name in os.listdir("svg"):
            ElementTree.fromstring(read(f"svg/{name}"))
        for name in os.listdir("png"):
            with open(f"png/{name}", "rb") as file:
                self.assertEqual(file.read(4), b"\x89PNG")

    def test_errors(self):
        for words, part in ((["svg"], "svg: error: neither a run (summary.json) nor a study (study.json) is in it"),
                            (["a_run", "--peak", "0"], "--peak must be above 0"), (["a_run", "--gemms", "no.json"],
                             "no.json: error: cannot read it: No such file")):
            done = plot(*words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(part, done.stderr)
        done = plot("a_run", "-o", "nothere/a.html")
        self.assertEqual(done.returncode, 3)
        self.assertIn("cannot write 'nothere/a.html': No such file or directory", done.stderr)
        os.makedirs("half", exist_ok=True)
        with open("half/summary.json", "w", encoding="utf-8") as file:
            file.write(read("a_run/summary.json")[:100])
        self.assertIn("it is not whole", plot("half").stderr)
        samples.run("damaged")
        for name, text in (("timing.csv", "step,phase,part\n0,forward\n"), ("metrics.jsonl", '{"step": 1}\n')):
            whole = read(f"damaged/{name}")
            samples.write(f"damaged/{name}", text)
            done = plot("damaged")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"damaged/{name}: error: it is damaged", done.stderr)
            self.assertNotIn("Traceback", done.stderr)
            samples.write(f"damaged/{name}", whole)

    def test_an_ideal_for_each_first_number_of_ranks(self):
        from study.figures import ideals
        from study.measured import MeasuredStudy
        point = lambda ranks, first: {"ranks": ranks, "ideal": ranks / first}
        series = {"a": [point(1, 1), point(2, 1)], "b": [point(2, 2), point(8, 2)], "c": [point(2, 2), point(4, 2)]}
        self.assertEqual(ideals(series), {"ideal from 1": series["a"], "ideal from 2": series["b"]})
        self.assertEqual(ideals({"a": series["a"]}), {"ideal": series["a"]})
        samples.run("named/seed_r1/results")
        samples.run("named/seed_r2/results")
        samples.write("named/study.json", '{"runs": ["seed_r1", "seed_r2"], "points": [], "repeats": 1}')
        self.assertEqual(list(MeasuredStudy("named").firsts()), ["seed_r1", "seed_r2"])
        samples.write("named/study.json", '{"runs": ["seed_r1", "seed_r2"], "points": [], "repeats": 2}')
        self.assertEqual(list(MeasuredStudy("named").firsts()), ["seed"])
