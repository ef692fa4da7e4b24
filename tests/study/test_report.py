# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/plot: one file without links, well-formed pictures, and the values that were measured in them."""
import contextlib
import io
import json
import os
import re
import resource
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

    def test_a_skeleton_says_so_and_has_no_rate(self):
        samples.run("bones")
        with open("bones/summary.json", encoding="utf-8") as file:
            summary = json.load(file)
        del summary["loss"]
        summary.update(skeleton="communication", figures={"exposed_communication": 0.3})
        with open("bones/summary.json", "w", encoding="utf-8") as file:
            json.dump(summary, file)
        os.remove("bones/metrics.jsonl")
        drawn = plot("bones")
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        text = read("bones/report.html")
        self.assertIn("skeleton (communication), nothing was trained", text)
        self.assertIn("<b>-</b><span>tokens/s</span>", text.replace("\n", ""))
        self.assertNotIn('<section id="loss">', text)

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
                    "all_gather shard: exposed 5 ms", "all_gather shard: in flight 7 ms", "all_gather tensor: exposed 10 ms"):
            self.assertIn(f"<title>{tip}</title>", text)

    def test_byte_order_marks_are_no_values(self):
        from study.measured import Measured
        samples.run("marked", every=True)
        plain = Measured("marked")
        for name in ("summary.json", "timing.csv", "every.csv", "metrics.jsonl"):
            with open(f"marked/{name}", "rb+") as file:
                text = file.read()
                file.seek(0)
                file.write(b"\xef\xbb\xbf" + text)
        marked = Measured("marked")
        self.assertEqual((marked.summary, marked.steps, marked.every, marked.losses),
                         (plain.summary, plain.steps, plain.every, plain.losses))

    def test_communication_is_no_longer_than_a_step(self):
        self.assertIn("ranks-2_tensor-1: in flight 2 ms</title>", read("study.html"))
        from study.measured import Measured
        run = Measured("a_run")
        del run.summary["in_flight"]  # as older summaries
        rows, together = run.communication()
        self.assertEqual([(name, round(sum(times))) for name, *times in rows], [("all_gather shard", 107), ("all_gather tensor", 10)])
        self.assertEqual(round(sum(together)), 107)

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
        self.assertRegex(text, r"tensor 1: 8 ranks, 6,498 tokens/s, speed-up 3.48, efficiency 87 %")

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
                            (["a_run", "--gemms", "no.json"], "no.json: error: cannot read it: No such file"),
                            *((["a_run", option, value], f"{option} is {float(value)}: it must be a finite number above 0")
                              for option in ("--peak", "--bandwidth") for value in ("0", "nan", "inf", "1e999"))):
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

    def test_what_is_not_there_is_told(self):
        for words in (["nothere"], ["nothere", "a_run"], ["a_run", "nothere"]):
            done = plot(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn("nothere: error: there is no such file or folder; expected the output folder or the summary.json of a run", done.stderr)
        samples.run("no_products")
        samples.write("no_products/overlap.json", '{"made": {}, "keys": []}')
        samples.projection("no_products.json")
        for path in ("no_products", "no_products/summary.json", "no_products.json"):
            for option in ("--peak", "--bandwidth"):
                done = plot(path, option, "100", "-o", "no_products.html")
                self.assertEqual(done.returncode, 2)
                self.assertIn(f"{option} is of the roofline, and '{os.path.dirname(path) if path.endswith('json') else path}' has no times"
                              if "/" in path or not path.endswith("json") else f"{option} is of the roofline", done.stderr)
                self.assertIn("make them with shard8 bench gemm DECK --json FILE", done.stderr)
        self.assertFalse(os.path.exists("no_products.html"))

    def test_an_output_that_is_read_is_refused(self):
        samples.run("kept/r", every=True)
        samples.gemms("kept/products.json")
        samples.projection("kept/p.json")
        samples.repeated("kept/s")
        samples.write("kept/s/points.csv", "ranks\n")
        os.symlink("r/summary.json", "kept/link.html")
        os.link("kept/r/timing.csv", "kept/hard.html")
        before = read("kept/r/summary.json")
        for words, out, path in ((["kept/r"], "kept/r/summary.json", "kept/r/summary.json"), (["kept/r"], "kept/link.html", "kept/r/summary.json"),
                                 (["kept/r"], "kept/hard.html", "kept/r/timing.csv"), (["kept/r/summary.json"], "kept/r/every.csv", "kept/r/every.csv"),
                                 (["kept/r", "--gemms", "kept/products.json"], "kept/products.json", "kept/products.json"),
                                 (["kept/r", "--projected", "kept/p.json"], "kept/p.json", "kept/p.json"), (["kept/p.json"], "kept/p.json", "kept/p.json"),
                                 (["kept/s"], "kept/s/study.json", "kept/s/study.json"), (["kept/s"], "kept/s/points.csv", "kept/s"),
                                 (["kept/s"], "kept/s/ranks-1_r1/results/metrics.jsonl", "kept/s/ranks-1_r1/results/metrics.jsonl"),
                                 (["kept/r", "kept/s"], "kept/s/points.csv", "kept/s"), (["kept/r", "kept/p.json"], "kept/p.json", "kept/p.json"),
                                 (["kept/s", "kept/r"], "kept/s/study.json", "kept/s/study.json")):
            done = plot(*words, "-o", out)
            self.assertEqual(done.returncode, 2, f"{words} {out} {done.stderr}")
            self.assertRegex(done.stderr, f"cannot write '{re.escape(out)}': it is .*'{re.escape(path)}'")
        os.makedirs("kept/svg")
        os.link("kept/r/metrics.jsonl", "kept/svg/loss.svg")
        self.assertIn("cannot write 'kept/svg/loss.svg': it is 'kept/r/metrics.jsonl'", plot("kept/r", "--svg", "kept/svg").stderr)
        self.assertEqual(read("kept/r/summary.json"), before)
        for _ in range(2):
            self.assertEqual(plot("kept/r").returncode, 0)  # a page replaces the page of before

    def test_pages_show_warnings(self):
        busy = {("processor",): {"busy": True, "without_core": [0.25, 0.0], "other_programs": [0.0, 0.125]}}
        text = ("{}: the machine was busy: a rank had work and no core for 25.0 % of its time, other programs took 12.5 % of a rank&#x27;s "
                "CPUs: its figures do not tell of the program")
        samples.run("busy")
        samples.change("busy", busy)
        self.assertEqual(plot("busy").returncode, 0)
        self.assertIn(text.format("busy"), read("busy/report.html"))
        self.assertNotIn("Warning", read("a_run/report.html"))
        samples.repeated("busy_study")
        samples.change("busy_study/ranks-2_r1/results", busy)
        self.assertEqual(plot("busy_study").returncode, 0)
        self.assertIn(text.format("ranks-2_r1"), read("busy_study/report.html"))  # study.json is an older one
        study = json.loads(read("busy_study/study.json"))
        study["points"][0].update(failed_runs=1, missing_runs=0, why="ranks-1_r3: failed, exit code 5")
        study["points"].append({"ranks": 4, "runs": 0, "failed_runs": 0, "missing_runs": 1, "why": "ranks-4_r1: not run yet", "tokens_per_s": None})
        samples.write("busy_study/study.json", json.dumps({**study, "warnings": ["scaling: weak, but <8>"]}))
        self.assertEqual(plot("busy_study").returncode, 0)
        self.assertEqual(plot("busy_study", "a_run", "-o", "busy_side.html").returncode, 0)
        for path in ("busy_study/report.html", "busy_side.html"):
            for part in ("scaling: weak, but &lt;8&gt;", "a point lacks 1 of 3 runs: ranks-1_r3: failed, exit code 5",
                         "a point has no figures: ranks-4_r1: not run yet"):
                self.assertIn(part, read(path))
        self.assertIn("<b>2 of 3</b><span>points</span>", read("busy_study/report.html"))

    def test_an_empty_table_is_told(self):
        samples.run("no_rows", every=True)
        for name, text in (("every.csv", ""), ("every.csv", "step,rank,data\n"), ("timing.csv", "")):
            whole = read(f"no_rows/{name}")
            samples.write(f"no_rows/{name}", text)
            done = plot("no_rows")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"no_rows/{name}: error: it is damaged or no file of a run (ValueError: it {'has no steps' if text else 'is empty'}", done.stderr)
            samples.write(f"no_rows/{name}", whole)
        samples.change("no_rows", {("deck", "output", "timing_ranks"): "gone.csv"})
        done = plot("no_rows")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: no_rows/gone.csv: there is no such file, which output.timing_ranks names: what it has is not drawn", done.stderr)

    def test_labels_of_repeats(self):
        from study.measured import MeasuredStudy
        samples.run("named/seed_r1/results")
        samples.run("named/seed_r2/results")
        for repeats, labels in ((1, ["seed_r1", "seed_r2"]), (2, ["seed"])):
            samples.write("named/study.json", json.dumps({
                "study": "s", "swept": [], "runs": ["seed_r1", "seed_r2"], "repeats": repeats,
                "points": [{"ranks": 1, "tokens_per_s": 1.0, "min": 1.0, "max": 1.0}]}))
            self.assertEqual(list(MeasuredStudy("named").means()), labels)

    def test_all_pictures_of_a_study_show_the_mean_over_repeats(self):
        samples.repeated("repeated")
        done = plot("repeated", "--png", "repeated_png")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = read("repeated/report.html")
        # Twice the first repeat of samples.PHASES, three halves of its memory.
        for tip in ("ranks-1: gemm 84 ms", "ranks-1: exposed 30 ms", "ranks-1: in flight 4 ms", "ranks-1: by kind: weights 15 MiB",
                    "ranks-1: plan: planned 90 MiB", "ranks-1: 5.5 at the end",
                    "all: 2 ranks, 1,800 tokens/s, speed-up 2, efficiency 100 %"):
            self.assertIn(f"<title>{tip}</title>", text)
        self.assertEqual(text.count("first repeat"), 0)

    def test_step_time_over_a_swept_number(self):
        samples.study("dial_study")
        with open("dial_study/study.json", encoding="utf-8") as file:
            study = json.load(file)
        first, steps = study["points"][0], {"": 0.004, "2": 0.009, "0": 0.005, "0.5": 0.006}
        study.update(scaling="", swept=["ranks", "moe.routing", "moe.skew", "mesh.tensor"], points=[
            {**first, "moe.routing": "zipf" if skew else "balanced", "moe.skew": skew, "step_p50_s": seconds}
            for skew, seconds in steps.items()])
        samples.write("dial_study/study.json", json.dumps(study))
        done = plot("dial_study", "--png", "dial_png")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = read("dial_study/report.html")
        self.assertEqual(re.findall(r'<section id="(\w+)">', text)[0], "dial_moe_skew")
        self.assertIn("dial_moe_skew.png", os.listdir("dial_png"))
        for tip in ("routing balanced: 4 at the end", "routing zipf: 9 at the end", "routing zipf: 5 ms at moe.skew 0.0",
                    "routing zipf: 6 ms at moe.skew 0.5", "routing zipf: 9 ms at moe.skew 2.0"):
            self.assertIn(f"<title>{tip}</title>", text)
        self.assertNotIn("dial_mesh", text)  # its points have one number, and it is no dial
        study["points"] = study["points"][:2]  # one number
        samples.write("dial_study/study.json", json.dumps(study))
        self.assertEqual(plot("dial_study").returncode, 0)
        self.assertNotIn("dial", re.findall(r'<section id="(\w+)">', read("dial_study/report.html"))[0])

    def test_curves_have_one_axis_of_tokens_and_speed_ups_of_their_own(self):
        """The curve with two tensor ranks is half as fast on every number of ranks, so it lies below by the same distance. Its
        speed-up is over its own fewest ranks, as in points.csv."""
        svg = self.svgs("study.html")[0]
        name = "{http://www.w3.org/2000/svg}"
        at = {dot.find(f"{name}title").text.split(",")[0]: float(dot.get("cy")) for dot in svg.iter(f"{name}circle")}
        below = [at[f"tensor 2: {ranks} ranks"] - at[f"tensor 1: {ranks} ranks"] for ranks in (2, 4, 8)]
        self.assertGreater(min(below), 20)
        self.assertLess(max(below) - min(below), 0.5)
        texts = [text.text for text in svg.iter(f"{name}text")]
        self.assertIn("tokens/s", texts)
        self.assertIn("1,000", texts)
        self.assertNotIn("speed-up", texts)  # one axis cannot be that of two curves
        self.assertIn("tensor 2: 2 ranks, 933 tokens/s, speed-up 1, efficiency 100 %", read("study.html"))
        self.assertIn("<td>tensor 2</td><td>8</td><td>3,249</td><td>8.0 %</td><td>3.48</td><td>87.1 %</td>", read("study.html"))
        samples.repeated("one_curve")
        self.assertEqual(plot("one_curve").returncode, 0)
        self.assertIn("speed-up", [text.text for text in self.svgs("one_curve/report.html")[0].iter(f"{name}text")])

    def test_labels_do_not_overlap(self):
        """Curves whose points nearly meet, many ranks, and percentiles that lie close together."""
        from study.svg import box_of
        samples.run("close")
        samples.change("close", {("steps", "p50_s"): 0.1070, ("steps", "p95_s"): 0.1071, ("steps", "p99_s"): 0.1072})
        samples.study("close_study")
        with open("close_study/study.json", encoding="utf-8") as file:
            study = json.load(file)
        first = study["points"][0]
        study["points"] = [{**first, "ranks": ranks, "mesh.tensor": tensor, "tokens_per_s": rate, "min": rate * 0.99,
                            "max": rate * 1.01, "efficiency": 0.9}
                           for tensor in "123" for ranks in (4, 5, 6, 7, 8, 9, 10, 11, 12, 128)
                           for rate in (ranks * 100.0 * (1 + 0.001 * int(tensor)),)]
        samples.write("close_study/study.json", json.dumps(study))
        for folder in ("close", "close_study", "a_run", "a_study"):
            done = plot(folder, "-o", "close.html")
            self.assertEqual(done.returncode, 0, done.stderr)
            for svg in self.svgs("close.html"):
                boxes = [(box_of(float(text.get("x")), float(text.get("y")), text.text, text.get("text-anchor")), text.text)
                         for text in svg.iter("{http://www.w3.org/2000/svg}text")]
                for i, (a, one) in enumerate(boxes):
                    for b, two in boxes[:i]:
                        over = min(a[2], b[2]) - max(a[0], b[0]) > 1 and min(a[3], b[3]) - max(a[1], b[1]) > 1
                        self.assertFalse(over, f"{folder}, {svg.get('aria-label')}, {svg.get('width')}: '{one}' over '{two}'")

    def test_a_small_phase_is_pale(self):
        """Data takes 1 ms of a step, backward 60 ms."""
        svg = next(svg for svg in self.svgs("a_run/report.html") if svg.get("aria-label") == "Phases over steps")
        dark = {}
        for rect in svg.iter("{http://www.w3.org/2000/svg}rect"):
            phase = rect.find("{http://www.w3.org/2000/svg}title").text.split(",")[0]
            dark[phase] = max(dark.get(phase, 0.0), float(rect.get("fill-opacity", "1")))
        self.assertEqual(dark["backward"], 1.0)
        self.assertAlmostEqual(dark["data"], (1 / 60) ** 0.5, delta=0.01)

    def test_a_run_without_measured_steps(self):
        samples.run("short")
        samples.change("short", {("steps", "measured"): 0, ("phases",): [], ("collectives",): [], ("in_flight",): []})
        for name in ("p50_s", "p95_s", "p99_s"):
            samples.change("short", {("steps", name): 0.0})
        samples.write("short/timing.csv", "step,phase,part,min_s,mean_s,max_s,worst_rank\n")
        done = plot("short", "--svg", "short_svg", "--png", "short_png")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(re.findall(r'<section id="(\w+)">', read("short/report.html")), ["loss", "memory"])
        self.assertIn("no measured steps: the run ended within the first steps", read("short/report.html"))
        self.assertIn("<b>-</b><span>tokens/s</span>", read("short/report.html"))
        samples.write("short/metrics.jsonl", "")
        samples.change("short", {("memory_per_rank",): []})
        self.assertIn("0 pictures", plot("short").stderr)

    def test_the_page_says_what_was_run(self):
        samples.run("told")
        samples.change("told", {("date",): "2026-11-26T07:09:04Z", ("command",): ["shard8", "run", "a b.yaml", "x.y=<1>"],
                                ("gpu",): {"name": "H100", "driver": None}})
        samples.write("told/training.json", json.dumps({"deck": [
            {"key": "output.summary", "value": "summary.json", "origin": "default"},
            {"key": "optimizer.lr", "value": "0.003", "origin": "deck"},
            {"key": "data.path", "value": "<b>", "origin": "command line"}]}))
        self.assertEqual(plot("told").returncode, 0)
        text = read("told/report.html")
        for name, value in (("Date", "2026-11-26T07:09:04Z"), ("Command", "shard8 run &#x27;a b.yaml&#x27; &#x27;x.y=&lt;1&gt;&#x27;"),
                            ("Machine", "&lt;a&amp;b&gt;; H100"), ("Changed keys", "optimizer.lr = 0.003; data.path = &lt;b&gt;")):
            self.assertIn(f"<dt>{name}</dt><dd>{value}</dd>", text)

    def test_the_program_says_the_name_of_the_summary(self):
        samples.run("other_name")
        os.rename("other_name/summary.json", "other_name/it's run.json")
        samples.write("other_name/training.json",
                      json.dumps({"deck": [{"key": "output.summary", "value": "it's run.json", "origin": "deck"}]}))
        done = plot("other_name")
        self.assertEqual(done.returncode, 0, done.stderr)
        os.remove("other_name/it's run.json")
        self.assertIn("neither a run (it's run.json) nor a study", plot("other_name").stderr)

    def test_a_full_disk_is_told(self):
        done = plot("a_run", "-o", "/dev/full")
        self.assertEqual(done.returncode, 3)
        self.assertIn("cannot write '/dev/full': No space left on device; name another place with -o", done.stderr)
        samples.run("full")
        samples.write("full/report.html", "of yesterday")
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
        for words, path in ((["full"], "full/report.html"), (["full", "-o", "/dev/null", "--svg", "full_svg"], "full_svg/phases.svg"),
                            (["full", "-o", "/dev/null", "--png", "full_png"], "full_png/phases.png")):
            done = subprocess.run([PLOT, *words], text=True, capture_output=True, check=False, preexec_fn=limit)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"cannot write '{path}': File too large", done.stderr)
        self.assertEqual(read("full/report.html"), "of yesterday")
        self.assertFalse([name for name in os.listdir("full") if name.endswith(".new")])

    def test_files_of_other_types_are_told(self):
        """Every value of a summary, a study and a bench in turn has another type, or is missing: either the page is drawn,
        or the error names the file."""
        from study.errors import StudyError
        from study.plot import arguments, work
        samples.run("fuzzed", every=True)
        samples.gemms("fuzzed/overlap.json")
        samples.study("fuzzed_study")
        refused = 0
        for folder, path in (("fuzzed", "fuzzed/summary.json"), ("fuzzed", "fuzzed/overlap.json"),
                             ("fuzzed_study", "fuzzed_study/study.json")):
            whole = read(path)
            for text in changed(json.loads(whole)):
                samples.write(path, text)
                try:
                    with contextlib.redirect_stderr(io.StringIO()):
                        work(arguments([folder, "-o", "/dev/null"]))
                except StudyError as error:
                    refused += 1
                    self.assertEqual(error.code, 2, text[:2000])
                except Exception as error:
                    self.fail(f"{path}: {type(error).__name__}: {error}: {text[:3000]}")
            samples.write(path, whole)
        self.assertGreater(refused, 300)
        for name, row in (("timing.csv", "1,step,,0,nan,inf,0"), ("timing.csv", "1,data,,0,1,1,99"), ("every.csv", "1,0,x"),
                          ("metrics.jsonl", '{"step": [], "loss": 1}'), ("metrics.jsonl", "[" * 100000)):
            whole = read(f"fuzzed/{name}")
            samples.write(f"fuzzed/{name}", whole + row + "\n")
            done = plot("fuzzed")
            self.assertEqual(done.returncode, 2, done.stderr[-2000:])
            self.assertIn(f"fuzzed/{name}: error: it is damaged", done.stderr)
            samples.write(f"fuzzed/{name}", whole)


def changed(whole):
    """Texts of a JSON value, in each of which one value is another one or missing. Of lists the first value is changed."""
    others = [None, "text", "", -1, 0, True, [], {}, [1], {"a": 1}, 1e999, float("nan"), 10 ** 400, "\ud800"]

    def places(value, keys=()):
        yield keys
        for key in (value if isinstance(value, dict) else range(min(1, len(value))) if isinstance(value, list) else ()):
            yield from places(value[key], (*keys, key))
    for keys in places(whole):
        for other in others if keys else others[:9]:
            value = json.loads(json.dumps(whole))
            at = value
            for key in keys[:-1]:
                at = at[key]
            if keys:
                at[keys[-1]] = other
            yield json.dumps(value if keys else other)
        if keys and isinstance(keys[-1], str):
            del at[keys[-1]]
            yield json.dumps(value)
