# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/validate on the rows of this folder and on others, with a machine file of round rates (machine.yaml)."""

import csv
import json
import os
import pathlib
import re
import subprocess
import unittest

from validate import Refused, efficiencies, gpus, report, results, rows, stacks

HERE = pathlib.Path(__file__).parent
REPOSITORY = HERE.parent.parent
ROWS = HERE / "scaling_rows.csv"
KEYS = ["id", "series", "measured_s", "projected_s", "low_s", "high_s", "naive_s", "anchor", "scored", "efficiency",
        "notes"]
MACHINE, PROGRAM = HERE / "machine.yaml", os.environ["SHARD8_PROGRAM"]


def validate(table, *options):
    command = [REPOSITORY / "scripts" / "validate", table, "--machine", MACHINE, "--program", PROGRAM, *options]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


def table_of():
    with open(ROWS, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(name, table, columns=None):
    with open(name, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns or list(table[0]), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(table)
    return pathlib.Path(name)


class Shipped(unittest.TestCase):
    """The rows with the machine file and the efficiencies that are shipped."""

    @staticmethod
    def validate(*options):
        command = [REPOSITORY / "scripts" / "validate", ROWS, "--program", PROGRAM, *options]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def test_the_page_is_what_is_drawn(self):
        page = (REPOSITORY / "docs" / "validation.md").read_text(encoding="utf-8")
        self.assertEqual(page, self.validate("--page"), "draw it again: scripts/validate ROWS.csv --write")

    def test_errors_are_within_what_is_promised(self):
        items = json.loads(self.validate("--json"))
        counted = [item for item in items if item["scored"] == "yes" and not item["anchor"]]
        self.assertEqual(len(counted), 31)

        def error(item, key="projected_s"):
            return abs(item[key] / item["measured_s"] - 1)

        def mean(values):
            values = list(values)
            return sum(values) / len(values)

        by_series = {}
        for item in counted:
            by_series.setdefault(item["series"], []).append(item)
        self.assertLessEqual(mean(map(error, counted)), 0.03)
        self.assertLessEqual(max(map(error, counted)), 0.10)
        self.assertLessEqual(mean(mean(map(error, some)) for some in by_series.values()), 0.035)
        hard = [some for some in by_series.values() if mean(error(item, "naive_s") for item in some) > 0.03]
        naive = mean(mean(error(item, "naive_s") for item in some) for some in hard)
        self.assertLessEqual(mean(mean(map(error, some)) for some in hard), 0.6 * naive)
        inside = [item["low_s"] <= item["measured_s"] <= item["high_s"] for item in counted]
        self.assertGreaterEqual(mean(inside), 0.9)


class AllRows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.done = validate(ROWS, "--json")
        cls.items = json.loads(cls.done.stdout) if cls.done.returncode == 0 else []

    def test_every_row_is_in_the_json(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertEqual([item["id"] for item in self.items], [row["id"] for row in table_of()])
        for item in self.items:
            self.assertEqual(list(item), KEYS)
            self.assertLess(item["low_s"], item["projected_s"])
            self.assertGreater(item["high_s"], item["projected_s"])
            self.assertLessEqual(item["high_s"], 1.2501 * item["low_s"])
            self.assertLess(abs(item["projected_s"] / item["measured_s"] - 1), 0.3, item)

    def test_anchors_are_met(self):
        anchors = [item for item in self.items if item["anchor"]]
        self.assertEqual(len(anchors), 9)
        for item in anchors:
            self.assertAlmostEqual(item["projected_s"] / item["measured_s"], 1, delta=1e-4)

    def test_naive_is_the_smallest_row_of_the_series(self):
        of = {item["id"]: item["naive_s"] for item in self.items}
        self.assertEqual(of["r14"], 6.999)
        self.assertEqual(of["r29"], 6.450)  # 128 GPUs, the smallest with full recomputation
        self.assertEqual(of["r04"], 2.843)  # another table of the same source
        self.assertEqual(of["r08"], 2.555)  # its series is its own

    def test_same_inputs_give_the_same_digits(self):
        self.assertEqual(validate(ROWS, "--json").stdout, self.done.stdout)

    def test_table(self):
        done = validate(ROWS)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("torchtitan eager, bf16: 0.", "fitted on r01, ", "r14 ", "rows that count: 31",
                     "measured between low and high:", "error to naive's, ",
                     "naive -: the series' smallest row", ", naive -\n"):
            self.assertIn(part, done.stdout)


class OtherRows(unittest.TestCase):
    def test_without_anchors_kept_efficiencies_serve(self):
        pair = efficiencies.Efficiency("torchtitan", "float8", 0.8, 4e14, "r03, there")
        row = next(row for row in rows.read(ROWS) if row.id == "r03")
        self.assertEqual(efficiencies.of(row, [pair]), (pair, ""))
        bf16 = efficiencies.Efficiency("torchtitan", "bf16", 0.9, 4e14, "r02, there")
        table = [row | {"precision": "float8 rowwise"} for row in table_of() if row["id"] == "r06"]
        other = rows.read(write("rowwise.csv", table))[0]
        self.assertEqual(efficiencies.of(other, [bf16, pair])[0], pair)
        self.assertEqual(efficiencies.of(other, [bf16])[0], bf16)
        found, note = efficiencies.of(other, [])
        self.assertIsNone(found)
        self.assertIn("efficiency 1", note)

    def test_other_rows_are_projected(self):
        table = [row | {"id": f"x{i}", "model": "other", "layers": "16", "precision": "float8 rowwise" if row["id"] == "r06"
                        else row["precision"]} for i, row in enumerate(table_of()) if row["id"] in ("r02", "r03", "r06")]
        done = validate(write("others.csv", table))
        self.assertEqual(done.returncode, 2)  # half the layers in the time of all: no efficiency explains that
        self.assertIn("below 0.65", done.stderr)
        for row in table:
            row["anchor"] = "no"
            row["scored"] = "own"
        done = validate(write("others.csv", table), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([item["scored"] for item in json.loads(done.stdout)], ["own"] * 3)
        efficiencies.write("kept.json", [efficiencies.Efficiency("torchtitan", "float8", 0.8, 4e14, "r03, there")])
        done = validate(write("others.csv", table), "--efficiencies", "kept.json")
        self.assertIn("torchtitan, float8: 0.8000, kept from r03, there", done.stdout)
        self.assertIn("float8 rowwise has no anchor: the efficiency of", done.stdout)

    def test_decks(self):
        found = {row.id: row for row in rows.read(ROWS)}
        known = stacks.read_all(REPOSITORY / "inputs" / "stacks")

        def deck(name):
            stack, named = stacks.find(known, found[name], ROWS)
            self.assertTrue(named)
            return stacks.deck(stack, found[name], ROWS), stacks.structure(stack, found[name], gpus.slower(found[name], MACHINE))

        zero, structure = deck("r19")
        self.assertEqual((zero["mesh"]["shard"], zero["mesh"]["replicate"], zero["mesh"]["tensor"]), (8, 1, 4))
        self.assertEqual(zero["overlap"]["enable"], "true")
        self.assertEqual((zero["model"]["arch"], structure["structure"]["mlp"]), ("llama", "plain"))
        hybrid, _ = deck("r12")
        self.assertEqual((hybrid["mesh"]["shard"], hybrid["mesh"]["replicate"]), (128, 4))
        self.assertEqual(hybrid["model"]["recompute"], "selective")
        mpt, _ = deck("r29")
        self.assertEqual((mpt["model"]["arch"], mpt["model"]["recompute"]), ("gpt2", "full"))
        slower, structure = deck("r03")
        self.assertEqual(slower["fp8"]["recipe"], "current")
        self.assertAlmostEqual(float(structure["kernels"]["any"]), 3.35 / 2.4, places=5)
        self.assertIn("2025-06", stacks.find(known, found["r07"], ROWS)[0].path.name)

    def test_summary(self):
        row = rows.read(ROWS)[3:5]  # no anchors
        one = [results.Result(r, 1.1 * r.step_time_s, 0.9 * r.step_time_s, 1.2 * r.step_time_s, 0.8 * r.step_time_s, None,
                              r.step_time_s, 1, ()) for r in row]
        summary = results.summary(one)
        self.assertEqual((summary.rows, summary.naive_series, summary.covered, summary.mfu), (2, 2, 1, None))
        self.assertAlmostEqual(summary.mean, 0.1)
        self.assertAlmostEqual(summary.ratio, 0.5)
        self.assertAlmostEqual(summary.compute, 0)

    def test_naive_says_nothing_of_the_row_that_it_is(self):
        row = rows.read(ROWS)[3:5]
        own = results.Result(row[0], 1.1 * row[0].step_time_s, 1, 9, row[0].step_time_s, None, 1, 1, (), True)
        other = results.Result(row[1], 1.2 * row[1].step_time_s, 1, 9, 0.6 * row[1].step_time_s, None, 1, 1, ())
        summary = results.summary([own, other])
        self.assertEqual(summary.naive_series, 1)
        self.assertAlmostEqual(summary.naive, 0.4)
        self.assertAlmostEqual(summary.ratio, 0.5)
        self.assertAlmostEqual(summary.mean, 0.15)
        alone = results.summary([own])
        self.assertEqual((alone.naive, alone.naive_series, alone.ratio), (None, 0, None))
        self.assertEqual([report.cells(result)[7] for result in (own, other)], ["-", "-40.0 %"])


class OwnStacks(unittest.TestCase):
    """--stacks: files of a user's own."""

    def test_they_serve_their_rows_and_stand_for_shipped_ones(self):
        folder = pathlib.Path("own_stacks")
        folder.mkdir(exist_ok=True)
        shipped = (REPOSITORY / "inputs" / "stacks" / "torchtitan-2024-12.yaml").read_text(encoding="utf-8")
        (folder / "mine.yaml").write_text(shipped.replace("rows: torchtitan", "rows: mine"), encoding="utf-8")
        slower = shipped.replace("reduce_copies: 1.5", "reduce_copies: 60").replace("  release: 2024-12\n", "")
        (folder / "slower.yaml").write_text(slower, encoding="utf-8")
        one = next(row for row in table_of() if row["id"] == "r02") | {"anchor": "no"}
        table = write("mine.csv", [one | {"id": "m", "stack": "mine"}, one | {"id": "t"}])
        done = validate(table, "--json", "--stacks", str(folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        mine, own = json.loads(done.stdout)
        self.assertIn("mine has no anchor: efficiency 1", mine["notes"])
        shipped, = json.loads(validate(write("one.csv", [one]), "--json").stdout)
        self.assertGreater(own["projected_s"], 1.02 * shipped["projected_s"])
        refused = validate(table)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("no file of inputs/stacks has it (--stacks names a folder of others); there are MaxText/JAX",
                      refused.stderr)
        (pathlib.Path("no_stacks")).mkdir(exist_ok=True)
        self.assertIn("no_stacks: there is no stack file", validate(table, "--stacks", "no_stacks").stderr)


class Efficiencies(unittest.TestCase):
    """Files of --efficiencies."""
    GOOD = {"stack": "torchtitan eager", "precision": "BF16", "efficiency": 0.8, "flops_per_s": 4e14, "anchor": "x"}

    @staticmethod
    def write(*pairs, **more):
        pathlib.Path("e.json").write_text(json.dumps({"format": 1, "pairs": list(pairs), **more}), encoding="utf-8")

    def refused(self, *parts):
        with self.assertRaises(Refused) as caught:
            efficiencies.read("e.json")
        for part in parts:
            self.assertIn(part, str(caught.exception))

    def test_good_ones_are_read(self):
        self.write(self.GOOD, {**self.GOOD, "precision": "float8", "efficiency": 1.1})
        pathlib.Path("e.json").write_bytes(b"\xef\xbb\xbf" + pathlib.Path("e.json").read_bytes())
        self.assertEqual([(pair.precision, pair.efficiency) for pair in efficiencies.read("e.json")],
                         [("bf16", 0.8), ("float8", 1.1)])
        shipped = efficiencies.read(REPOSITORY / "inputs" / "stacks" / "efficiencies.json")
        efficiencies.write("again.json", shipped)
        self.assertEqual(efficiencies.read("again.json"), shipped)

    def test_values_are_checked(self):
        where = "e.json: pairs[0] (torchtitan eager, BF16): "
        for key, value, part in (
                ("efficiency", "0.8", 'efficiency is "0.8", expected a number from 0.65 to 1.1'),
                ("efficiency", float("nan"), "efficiency is NaN"), ("efficiency", True, "efficiency is true"),
                ("efficiency", -1, "efficiency is -1"), ("efficiency", 50, "efficiency is 50"),
                ("efficiency", None, "efficiency is null"), ("flops_per_s", 0, "flops_per_s is 0, expected a number above 0"),
                ("flops_per_s", float("inf"), "flops_per_s is Infinity"), ("anchor", "", 'anchor is "", expected a text'),
                ("anchor", 5, "anchor is 5"), ("speed", 1, "unknown key 'speed'")):
            self.write({**self.GOOD, key: value})
            self.refused(where + part)
        self.write({**self.GOOD, "stack": 7}, {key: value for key, value in self.GOOD.items() if key != "anchor"}, "pair")
        self.refused("pairs[0] (7, BF16): stack is 7", "pairs[1] (torchtitan eager, BF16): 'anchor' is missing",
                     'pairs[2]: "pair" is no object')
        self.write(self.GOOD, {**self.GOOD, "precision": "bf16"})
        self.refused("pairs[1] (torchtitan eager, bf16): a pair above is the same")

    def test_files_are_checked(self):
        for text, part in (("[]", "it has no list 'pairs'"), ('{"pairs": {}}', "it has no list 'pairs'"),
                           ('{"pairs": []}', "format is null, expected 1"), ("{", "cannot read the efficiencies"),
                           ('{"format": true, "pairs": []}', "format is true, expected 1")):
            pathlib.Path("e.json").write_text(text, encoding="utf-8")
            self.refused("e.json: " + part)

    def test_a_file_that_is_only_read_must_exist(self):
        table = write("two.csv", [row for row in table_of() if row["id"] == "r02"])
        done = validate(table, "--efficiencies", "nope.json")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("nope.json: there is no such file of efficiencies", done.stderr)
        self.write({**self.GOOD, "efficiency": 50})
        done = validate(table, "--efficiencies", "e.json")
        self.assertEqual(done.returncode, 2)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(efficiencies.read("nope.json"), [])  # with --write, which makes it

    def test_a_failed_write_leaves_the_file(self):
        self.write(self.GOOD)
        before = pathlib.Path("e.json").read_bytes()
        with self.assertRaises((TypeError, ValueError)):
            efficiencies.write("e.json", [efficiencies.Efficiency("a", "bf16", object(), 1.0, "x")])
        self.assertEqual(pathlib.Path("e.json").read_bytes(), before)


class Errors(unittest.TestCase):
    def refused(self, change, *parts, columns=None):
        table = table_of()[:3]
        table[1] |= change
        done = validate(write("wrong.csv", table, columns), "--json")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_of_values(self):
        where = "wrong.csv:3: row r02: column "
        self.refused({"gpus": "16"}, where + "gpus = '16': expected tensor x shard x replicate = 8")
        self.refused({"seq": "8k", "scored": "maybe"}, where + "seq = '8k': expected a whole number",
                     where + "scored = 'maybe': expected yes or no or own")
        self.refused({"step_time_s": "-1"}, where + "step_time_s = '-1': expected a number of seconds")
        self.refused({"step_time_s": "nan"}, where + "step_time_s")
        self.refused({"tokens_per_s_per_gpu": "9999"}, where + "tokens_per_s_per_gpu = '9999': expected 6668.3, by step_time_s = "
                     "2.457, within 2 %: one of the two is wrong")
        self.refused({"tokens_per_s_per_gpu": "many"}, where + "tokens_per_s_per_gpu = 'many': expected a number above 0")
        self.refused({"global_batch": "17"}, where + "global_batch = '17': expected micro_batch x grad_accum")
        self.refused({"stack": "torchtitan2"}, where + "stack = 'torchtitan2'", "there are MaxText/JAX")
        self.refused({"gpu": "A100"}, where + "gpu = 'A100'", "H100-80G")
        self.refused({"precision": "int4"}, where + "precision = 'int4'")
        self.refused({"stack": "llm-foundry", "recompute": "some"}, where + "recompute = 'some'", "llm-foundry.yaml")
        self.refused({"id": "r01"}, "wrong.csv:3: row r01: column id: line 2 has it, too")

    def test_tokens_are_compared_where_they_are_given(self):
        table = [row | {"id": f"x{i}", "tokens_per_s_per_gpu": text} for row in table_of()[1:2]
                 for i, text in enumerate(("6540", "6800", "", "-"))]
        self.assertEqual(len(rows.read(write("tokens.csv", table))), 4)
        columns = [column for column in table[0] if column not in rows.NOT_READ]
        self.assertEqual(len(rows.read(write("tokens.csv", table, columns))), 4)

    def test_help_has_every_column(self):
        done = subprocess.run([str(REPOSITORY / "scripts" / "validate"), "--help"], capture_output=True, text=True, check=False)
        names = ", ".join(re.findall(r"(?m)^  (\w+(?:, \w+)*)(?:  |$)", done.stdout)).split(", ")
        self.assertEqual(sorted(names), sorted(rows.COLUMNS + rows.NOT_READ))

    def test_of_columns(self):
        columns = list(table_of()[0])
        self.refused({"speed": "1"}, "wrong.csv:1: unknown column 'speed'", columns=[*columns, "speed"])
        self.refused({}, "wrong.csv:1: column 'seq' is missing", columns=[c for c in columns if c != "seq"])

    def test_of_files(self):
        self.assertEqual(validate("none.csv").returncode, 2)
        pathlib.Path("empty.csv").write_text("", encoding="utf-8")
        self.assertIn("the file is empty", validate("empty.csv").stderr)
        done = subprocess.run([str(REPOSITORY / "scripts" / "validate"), str(ROWS), "--machine", "none.yaml", "--program",
                               PROGRAM], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no such machine file", done.stderr)

    def test_lines_are_those_of_the_file(self):
        table = table_of()[:4]
        table[0]["note"] = 'two\nlines, "quoted"'
        table[1]["note"], table[1]["seq"], table[3]["gpus"] = "two\nlines", "8k", "16"
        done = validate(write("breaks.csv", table))
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"breaks.csv:4: row {table[1]['id']}: column seq", done.stderr)  # the line on which the row begins
        self.assertIn(f"breaks.csv:7: row {table[3]['id']}: column gpus", done.stderr)

    def test_a_byte_order_mark_is_no_column(self):
        path = write("marked.csv", table_of())
        text = path.read_bytes()
        path.write_bytes(b"\xef\xbb\xbf" + text)
        self.assertEqual(rows.read(path), rows.read(ROWS))

    def test_of_two_anchors(self):
        table = [row | {"anchor": "yes"} for row in table_of() if row["id"] in ("r02", "r05")]
        done = validate(write("anchors.csv", table))
        self.assertEqual(done.returncode, 2)
        self.assertIn("row r05: column anchor: row r02 is the anchor of torchtitan, bf16", done.stderr)

    def test_refused_has_a_code(self):
        self.assertEqual(Refused(["a", "b"]).code, 2)


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    unittest.main()
