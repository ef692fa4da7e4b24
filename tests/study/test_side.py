# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/plot with several arguments: pictures and tables that agree with each other and with the summaries."""
import contextlib
import io
import json
import math
import os
import re
import unittest
from html.parser import HTMLParser
from xml.etree import ElementTree

import samples
from test_report import changed, plot, read

SVG = "{http://www.w3.org/2000/svg}"
COMPUTING = ("gemm", "attention", "elementwise", "rest of forward and backward", "optimizer", "quantize")


def summary_of(path):
    return json.loads(read(path if path.endswith(".json") else f"{path}/summary.json"))


def section(text, key):
    return re.search(rf'<section id="{key}">(.*?)</section>', text, re.S)[1]


def pictures(text, key):
    """The wide and the narrow picture of a section."""
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg role.*?</svg>", section(text, key), re.S)]


def tip(part):
    title = part.find(f"{SVG}title")
    return "" if title is None else title.text


def rows_of(text, key):
    """{first cell: {head: cell}} of the table of a section."""
    text = section(text, key)
    cells = lambda row, tag: re.findall(rf"<{tag}>(.*?)</{tag}>", row)
    heads = cells(text, "th")
    return {row[0]: dict(zip(heads[1:], row[1:])) for row in map(lambda row: cells(row, "td"), re.findall(r"<tr.*?</tr>", text)) if row}


def value(text):
    return float(text.replace(",", ""))


def step_ms(path):
    return 1e3 * next(row["mean_s"] for row in summary_of(path)["phases"] if row["phase"] == "step")


def slower(folder, times, ranks=4):
    """A run whose step takes other `times`."""
    samples.run(folder, ranks)
    summary = summary_of(folder)
    for row in summary["phases"]:
        row["mean_s"] *= times
    summary["figures"]["tokens_per_s"] /= times
    summary["figures"]["tokens_per_s_per_rank"] = summary["figures"]["tokens_per_s"] / ranks
    samples.write(f"{folder}/summary.json", json.dumps(summary))


def skeleton(folder, kept="communication"):
    """Makes a run a skeleton, whose summary has no loss and no figure but one."""
    summary = summary_of(folder)
    del summary["loss"]
    summary.update({"skeleton": kept, "figures": {"exposed_communication": summary["figures"]["exposed_communication"]}})
    samples.write(f"{folder}/summary.json", json.dumps(summary))


def sweep(path):
    meshes = [{"replicate": 1, "shard": 16 // tensor, "tensor": tensor, "memory_bytes": tensor << 30, "tokens_per_s": 9e4 / tensor,
               "step_s": {"low": 0.09 * tensor, "nominal": 0.1 * tensor, "high": 0.12 * tensor}, "exposed_communication": 0.25}
              for tensor in range(1, 13)]
    samples.write(path, json.dumps({"schema": 1, "ranks": 16, "projected": {"machine": "m", "version": "0.1.0", "command": "x"}, "meshes": meshes,
                                    "too_large": [], "not_projected": []}))


def boxes_do_not_overlap(test, svg):
    from study.svg import box_of
    boxes = [(box_of(float(text.get("x")), float(text.get("y")), text.text, text.get("text-anchor")), text.text)
             for text in svg.iter(f"{SVG}text")]
    for i, (a, one) in enumerate(boxes):
        for b, two in boxes[:i]:
            over = min(a[2], b[2]) - max(a[0], b[0]) > 1 and min(a[3], b[3]) - max(a[1], b[1]) > 1
            test.assertFalse(over, f"{svg.get('aria-label')}, {svg.get('width')}: '{one}' over '{two}'")


class Side(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        samples.run("a_run")
        slower("slow", 2.5, ranks=8)
        slower("bare", 0.5)
        skeleton("bare")
        samples.repeated("a_study")
        samples.projection("one.json", ranks=16, times=0.8)
        sweep("sweep.json")
        cls.paths = ["a_run", "slow/summary.json", "bare", "a_study", "one.json", "sweep.json"]
        cls.done = plot(*cls.paths, "-o", "all.html", "--svg", "svg", "--png", "png")
        cls.text = read("all.html") if cls.done.returncode == 0 else ""
        cls.labels = ["1 a_run", "2 slow", "3 bare", "4 repeated: ranks-1", "5 repeated: ranks-2", "6 one, on h100-sxm",
                      *(f"{i + 7} sweep: 1×{16 // tensor}×{tensor}" for i, tensor in enumerate(range(1, 9)))]

    def test_all_are_on_one_page(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertEqual(re.findall(r'<section id="(\w+)">', self.text),
                         ["figures", "step_time", "scaling", "scaling_per_rank", "memory", "loss", "differences"])
        self.assertEqual(list(rows_of(self.text, "figures")), self.labels)
        self.assertIn("4 slower meshes of sweep.json are not drawn.", self.text)
        for path in [f"svg/{name}" for name in os.listdir("svg")]:
            ElementTree.fromstring(read(path))
        self.assertEqual(sorted(os.listdir("png")), ["loss.png", "memory.png", "scaling.png", "scaling_per_rank.png", "step_time.png"])
        self.assertEqual(self.text.count("<script"), 0)
        self.assertEqual(re.findall(r"http:|https:|src=|url\(", self.text.replace("http://www.w3.org/2000/svg", "")), [])

    def test_bars_add_up_to_the_steps_of_the_table(self):
        """Widths of a bar's rectangles, by the scale of the picture, against the table and against the summaries."""
        expected = {"1 a_run": step_ms("a_run"), "2 slow": 2.5 * 107, "3 bare": 0.5 * 107, "4 repeated: ranks-1": 2 * 107,
                    "6 one, on h100-sxm": 0.8 * 107, "7 sweep: 1×16×1": 100}
        table, scales = rows_of(self.text, "figures"), []
        for svg in pictures(self.text, "step_time"):
            widths = dict.fromkeys(self.labels, 0.0)
            for rect in svg.iter(f"{SVG}rect"):
                if match := re.fullmatch(r"(.*): (.*?) [\d,.]+ ms", tip(rect)):
                    widths[match[1]] += float(rect.get("width"))
            for label, wide in widths.items():
                scales.append((svg.get("width"), wide / value(table[label]["step, ms"])))
                if label in expected:
                    self.assertAlmostEqual(value(table[label]["step, ms"]), expected[label], delta=0.006 * expected[label])
        for width in ("760", "360"):
            of_width = [scale for at, scale in scales if at == width]
            self.assertEqual(len(of_width), len(self.labels))
            # A rectangle is drawn to 0.1 pixels, and the table has three digits.
            self.assertLess(max(of_width) / min(of_width), 1.03)
        numbers = rows_of(self.text, "step_time")
        for label, row in numbers.items():
            parts = sum(value(cell) for head, cell in row.items() if head.endswith(", ms") and head != "step, ms")
            self.assertAlmostEqual(parts, value(row["step, ms"]), delta=0.01 * value(row["step, ms"]))

    def test_exposed_communication_is_marked(self):
        svg = pictures(self.text, "step_time")[0]
        lines = [float(line.get("x2")) - float(line.get("x1")) for line in svg.iter(f"{SVG}line") if line.get("class") == "exposed"]
        scale = sum(float(rect.get("width")) for rect in svg.iter(f"{SVG}rect") if tip(rect).startswith("1 a_run: ")) / 107
        self.assertAlmostEqual(lines[0] / scale, 8 + 15 + 8 + 4, delta=0.5)  # tensor_comm twice, gather_wait, reduce_wait
        self.assertEqual(rows_of(self.text, "figures")["1 a_run"]["exposed"], "32.7 %")
        self.assertIn("32.7 % exposed", [text.text for text in svg.iter(f"{SVG}text")])
        self.assertAlmostEqual(lines[6] / scale, 25, delta=0.5)  # of the sweep: a quarter of 100 ms

    def test_tokens_are_those_of_the_summaries(self):
        rates = {"1 a_run": (summary_of("a_run")["figures"]["tokens_per_s"], 4), "2 slow": (summary_of("slow")["figures"]["tokens_per_s"], 8),
                 "5 repeated: ranks-2": (2000.0, 2), "6 one, on h100-sxm": (16000.0, 16), "8 sweep: 1×8×2": (45000.0, 16)}
        table = rows_of(self.text, "figures")
        for key, by_rank in (("scaling", False), ("scaling_per_rank", True)):
            for svg in pictures(self.text, key):
                dots = {tip(dot).rsplit(", ", 2 if "projected" not in tip(dot) else 3)[0]: dot for dot in svg.iter(f"{SVG}circle")}
                found = []
                for label, (rate, ranks) in rates.items():
                    dot = next(dot for at, dot in dots.items() if at.startswith(label))
                    shown = rate / (ranks if by_rank else 1)
                    self.assertAlmostEqual(value(table[label]["a rank" if by_rank else "tokens/s"]), shown, delta=0.006 * shown)
                    said = re.search(rf": ([\d,.]+) tokens/s", tip(dot).split(f"{ranks} ranks")[1])[1]
                    self.assertAlmostEqual(value(said), shown, delta=0.006 * shown)
                    found.append((math.log(shown), float(dot.get("cy")), math.log(ranks), float(dot.get("cx"))))
                # A logarithmic axis: pixels are a straight line over logarithms.
                for a, b in ((0, 1), (2, 3)):
                    lowest, highest = min(found, key=lambda row: row[a]), max(found, key=lambda row: row[a])
                    slope = (highest[b] - lowest[b]) / (highest[a] - lowest[a])
                    for row in found:
                        self.assertAlmostEqual(lowest[b] + slope * (row[a] - lowest[a]), row[b], delta=0.3)

    def test_a_subject_has_one_colour(self):
        legend = {}
        for color, label in re.findall(r'<li><svg class="swatch".*?stroke:(#\w+).*?</svg>(.*?)(?: <span>|</li>)', self.text):
            legend[label] = {color}
        self.assertEqual(list(legend), self.labels)
        whose = lambda text: next((label for label in self.labels if re.match(rf"{re.escape(label)}(, |:|$)", text)), None)
        seen = dict.fromkeys(self.labels, 0)
        for key in ("step_time", "scaling", "scaling_per_rank", "memory", "loss"):
            for svg in pictures(self.text, key):
                for part in svg.iter():
                    label = whose(tip(part))
                    color = (re.search(r"stroke:(#\w+)", part.get("style") or "") or [None, None])[1] if part.tag != f"{SVG}rect" else part.get("fill")
                    swatch = part.tag == f"{SVG}rect" and re.search(r", (measured|projected|skeleton \(\w+\))$", tip(part))
                    if label and color and (swatch or part.tag in (f"{SVG}circle", f"{SVG}path")):
                        legend[label].add(color)
                        seen[label] += 1
        self.assertEqual({label: len(colors) for label, colors in legend.items()}, dict.fromkeys(self.labels, 1))
        self.assertEqual([seen["1 a_run"], seen["3 bare"], seen["6 one, on h100-sxm"], seen["7 sweep: 1×16×1"]], [10, 4, 8, 8])
        curve = legend["4 repeated: ranks-1"]
        self.assertEqual(curve, legend["5 repeated: ranks-2"])  # one curve of the study
        colors = [legend[label] for label in self.labels[:4] + self.labels[5:9]]
        self.assertFalse([one for i, one in enumerate(colors) if one in colors[:i]])
        dashes = [re.search(r"stroke-dasharray:([\d ]+)", part) for part in re.findall(r'<svg class="swatch".*?</svg>', self.text)]
        loss = {tip(path).split(": 5")[0].split(": 3")[0]: re.search(r"stroke-dasharray:([\d ]+)", path.get("style"))
                for path in pictures(self.text, "loss")[0].iter(f"{SVG}path")}
        for label, found in loss.items():
            at = dashes[self.labels.index(label)]
            self.assertEqual(found and found[1], at and at[1], label)

    def test_projections_and_skeletons_are_marked(self):
        svg = pictures(self.text, "step_time")[0]
        texts = [text.text for text in svg.iter(f"{SVG}text")]
        self.assertIn("projected, 16 ranks", texts)
        self.assertIn("85.6 ms (77.8 to 94.2)", texts)  # 0.8 · 107 ms, with 10 %
        self.assertIn("skeleton (communication), 4 ranks", texts)
        self.assertEqual(len([path for path in svg.iter(f"{SVG}path") if path.get("class") == "hatch"]), 9)
        of_bare = [tip(rect) for rect in svg.iter(f"{SVG}rect") if tip(rect).startswith("3 bare: ")]
        self.assertIn("3 bare: wait in place of computing 35 ms", of_bare)  # half of all but communication, data and other
        self.assertFalse([text for text in of_bare if any(f": {part} " in text for part in COMPUTING)])
        table = rows_of(self.text, "figures")
        self.assertEqual([table["3 bare"][head] for head in ("tokens/s", "a rank", "last loss")], ["-"] * 3)
        self.assertEqual(table["6 one, on h100-sxm"]["last loss"], "-")
        for key in ("scaling", "scaling_per_rank", "loss"):
            for svg in pictures(self.text, key):
                self.assertFalse([tip(part) for part in svg.iter() if tip(part).startswith("3 bare")])
        self.assertFalse([tip(part) for part in pictures(self.text, "loss")[0].iter() if "sweep" in tip(part) or tip(part).startswith("6 ")])
        self.assertIn("Skeleton runs have none: 3 bare.", section(self.text, "scaling"))
        hollow = [tip(dot) for dot in pictures(self.text, "scaling")[0].iter(f"{SVG}circle") if dot.get("fill") == "var(--back)"]
        self.assertEqual(len(hollow), 9)
        self.assertTrue(all("projected" in text for text in hollow))
        done = plot("bare", "-o", "bare.html")  # alone
        self.assertEqual(done.returncode, 0, done.stderr)
        text = read("bare.html")
        for part in ("skeleton (communication), nothing was trained: llama", "<b>-</b><span>tokens/s</span>", "<b>-</b><span>final loss</span>"):
            self.assertIn(part, text)

    def test_only_what_differs(self):
        for name, changes in (("left", {}), ("right", {("deck", "model", "arch"): "gpt2", ("version", "git_hash"): "def",
                                                       ("hosts",): ["other"] * 4, ("gpu",): {"name": "H100"}})):
            samples.run(name)
            samples.change(name, changes)
        self.assertEqual(plot("left", "right", "-o", "differ.html").returncode, 0)
        rows = rows_of(read("differ.html"), "differences")
        self.assertEqual({key: list(row.values()) for key, row in rows.items() if any(row.values())}, {
            "model.arch": ["llama", "gpt2"], "hosts": ["&lt;a&amp;b&gt;", "other"], "card name": ["-", "H100"], "commit": ["abc", "def"]})
        self.assertEqual([key for key, row in rows.items() if not any(row.values())], ["Deck", "Machine", "Version"])
        samples.run("third")
        self.assertEqual(plot("left", "third", "-o", "same.html").returncode, 0)
        self.assertIn("Nothing: decks, machines and versions are equal.", read("same.html"))
        rows = rows_of(self.text, "differences")  # a sweep's file has no deck: what is not known is no difference
        self.assertNotIn("model.arch", rows)
        self.assertEqual(rows["mesh.tensor"]["8 sweep: 1×8×2"], "2")
        self.assertNotIn("hosts", rows)  # nor are the hosts and libraries of what was not run
        self.assertEqual(rows["machine file"]["6 one, on h100-sxm"], "h100-sxm (h100-sxm.yaml)")

    def test_energy(self):
        samples.run("counted")
        samples.change("counted", {("energy",): {"joules_per_token": 0.0125, "mean_watts": 610.0}})
        samples.run("not_counted")
        samples.change("not_counted", {("energy_missing",): "no <counter>"})
        self.assertEqual(plot("counted", "not_counted", "-o", "energy.html").returncode, 0)
        rows = rows_of(read("energy.html"), "figures")
        self.assertEqual([[row["J a token"], row["mean W"]] for row in rows.values()], [["0.0125", "610"], ["not read", "not read"]])
        self.assertIn("Not read: nothing counted the energy of 2 not_counted, which is not zero (no &lt;counter&gt;).", read("energy.html"))
        self.assertEqual(plot("not_counted", "a_run", "-o", "energy.html").returncode, 0)
        self.assertIn("Not read: nothing counted the energy, which is not zero (no &lt;counter&gt;).", read("energy.html"))

    def test_equal_names_are_told_apart(self):
        for folder in ("x/run", "y/run"):
            samples.run(folder)
        self.assertEqual(plot("x/run", "y/run", "a_run", "a_run", "-o", "names.html").returncode, 0)
        self.assertEqual(list(rows_of(read("names.html"), "figures")), ["1 run (x/run)", "2 run (y/run)", "3 a_run (1)", "4 a_run (2)"])

    def test_every_text_is_escaped(self):
        hurt = "<script>alert(1)</script>&\"'"
        os.makedirs("hurt", exist_ok=True)
        folder = "hurt/<b>&\"' run"
        samples.run(folder)
        samples.change(folder, {("deck", "model", "arch"): hurt, ("hosts",): [hurt], ("version", "git_hash"): hurt, ("command",): [hurt],
                                ("date",): hurt, ("gpu",): {"name": hurt}, ("memory_per_rank",): [{"kind": hurt, "bytes": 1 << 20}],
                                ("energy_missing",): hurt, ("skeleton",): hurt, ("environment",): {hurt: hurt}})
        samples.projection("hurt/<i>.json", machine=hurt)
        done = plot("a_run", folder, "hurt/<i>.json", "-o", "hurt.html", "--svg", "hurt_svg")
        self.assertEqual(done.returncode, 0, done.stderr)
        text, tags = read("hurt.html"), set()
        parser = HTMLParser()
        parser.handle_starttag = lambda tag, attributes: tags.add(tag)
        parser.feed(text)
        parser.close()
        self.assertFalse(tags & {"script", "b>", "i>"})
        self.assertEqual(text.count("<i>"), 0)
        self.assertNotIn("<script", text)
        self.assertIn("&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#x27;", text)
        for key in ("step_time", "scaling", "memory", "loss"):
            self.assertEqual(len(pictures(text, key)), 2)  # they are XML
        for name in os.listdir("hurt_svg"):
            ElementTree.fromstring(read(f"hurt_svg/{name}"))

    def test_a_run_by_its_summary_is_the_page_of_its_folder(self):
        self.assertEqual(plot("a_run", "-o", "folder.html").returncode, 0)
        self.assertEqual(plot("a_run/summary.json", "-o", "file.html").returncode, 0)
        self.assertEqual(read("folder.html"), read("file.html"))
        self.assertIn("<h1>Run a_run</h1>", read("folder.html"))
        self.assertNotIn('class="legend subjects"', read("folder.html"))

    def test_a_sweep_alone(self):
        done = plot("sweep.json", "-o", "swept.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(re.findall(r'<section id="(\w+)">', read("swept.html")),
                         ["figures", "step_time", "scaling", "scaling_per_rank", "memory", "differences"])

    def test_a_study_of_skeletons(self):
        samples.study("bare_study")
        study = json.loads(read("bare_study/study.json"))
        for name in study["runs"]:
            skeleton(f"bare_study/{name}/results", "computation")
        samples.write("bare_study/study.json", json.dumps({**study, "points": []}))
        done = plot("bare_study")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("skeleton (computation), 8 ranks", read("bare_study/report.html"))
        self.assertNotIn('id="scaling"', read("bare_study/report.html"))

    def test_forty(self):
        for i in range(40):
            slower(f"forty/a_run_with_a_long_name_{i}", 1 + 0.02 * i, ranks=2 ** (i % 8))
        done = plot(*(f"forty/a_run_with_a_long_name_{i}" for i in range(40)), "-o", "forty.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = read("forty.html")
        legend = re.findall(r'<svg class="swatch".*?style="(.*?)"', text)
        self.assertEqual((len(legend), len(set(legend))), (40, 40))
        self.assertIn("flex-wrap: wrap", text)
        for key in ("step_time", "scaling", "scaling_per_rank", "memory", "loss"):
            for svg in pictures(text, key):
                boxes_do_not_overlap(self, svg)
                self.assertLess(float(svg.get("height")), 2800)
                drawn = {match[1] for part in svg.iter() if (match := re.match(r"(\d+) a_run", tip(part)))}
                self.assertEqual(len(drawn), 40, key)
        for key in ("step_time", "scaling", "memory", "loss"):
            for svg in pictures(self.text, key):
                boxes_do_not_overlap(self, svg)

    def test_errors(self):
        samples.write("text.txt", "no JSON")
        samples.write("other.json", '{"a": 1}')
        samples.write("list.json", "[1]")
        os.makedirs("empty", exist_ok=True)
        done = plot("a_run", "nothere", "text.txt", "other.json", "list.json", "empty", "-o", "errors.html")
        self.assertEqual(done.returncode, 2)
        for part in ("nothere: error: there is no such file or folder", "text.txt: error: cannot read it: it is not whole",
                     "other.json: error: it has no 'version'", "list.json: error: it is [1], not an object",
                     "empty: error: neither a run (summary.json) nor a study (study.json) is in it"):
            self.assertIn(part, done.stderr)
        self.assertEqual(done.stderr.count("expected the output folder or the summary.json of a run, the folder of a study, or what "
                                           "shard8 project --json wrote"), 5)
        self.assertFalse(os.path.exists("errors.html"))
        samples.run("without_loss")
        summary = summary_of("without_loss")
        del summary["loss"]
        samples.write("without_loss/summary.json", json.dumps(summary))
        self.assertIn("it has no 'loss'", plot("without_loss", "a_run").stderr)
        for words in (["--gemms", "x.json"], ["--peak", "1"], ["--bandwidth", "1"]):
            done = plot("a_run", "slow", *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{words[0]} is of one run", done.stderr)
        done = plot()
        self.assertEqual(done.returncode, 2)

    def test_values_of_other_types_are_told(self):
        from study.errors import StudyError
        from study.plot import arguments, work
        refused = 0

        def tried(path, text):
            samples.write(path, text)
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    work(arguments(["a_run", "fuzzed_side" if "summary" in path else path, "-o", "/dev/null"]))
            except StudyError as error:
                self.assertEqual(error.code, 2, text[:500])
                return 1
            except Exception as error:
                self.fail(f"{path}: {type(error).__name__}: {error}: {text[:2000]}")
            return 0
        samples.run("fuzzed_side")
        whole = {**summary_of("fuzzed_side"), "energy": {"joules_per_token": 1.0, "mean_watts": 2.0}, "skeleton": "communication",
                 "environment": {"A": "1"}, "run": {"device": "host"}, "gpu": {"name": "H"}}
        for key in ("energy", "skeleton", "environment", "run", "gpu", "hosts", "figures", "loss", "version", "deck", "memory_per_rank", "ranks"):
            for text in changed({key: whole[key]}):
                one = json.loads(text)
                if isinstance(one, dict):
                    refused += tried("fuzzed_side/summary.json", json.dumps({**whole, "skeleton": None, **one}))
        sweep("fuzzed_sweep.json")
        swept = json.loads(read("fuzzed_sweep.json"))
        for text in changed({**swept, "meshes": swept["meshes"][:1]}):
            refused += tried("fuzzed_sweep.json", text)
        self.assertGreater(refused, 150)


if __name__ == "__main__":
    unittest.main()
