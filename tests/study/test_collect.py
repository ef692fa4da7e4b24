# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of a study, against figures computed by hand."""
import csv
import json
import os
import unittest

from fake import Fake, write


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Collect(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fake = Fake("collect")
        cls.fake.study("deck: deck.yaml\nfolder: out\nrepeats: 2\nscaling: strong\nsweep: {ranks: [2, 1, 4]}\n")
        cls.code, cls.out, cls.error = cls.fake.run()

    def test_a_row_for_each_run(self):
        self.assertEqual(self.code, 0, self.error)
        runs = {row["run"]: row for row in rows(self.fake.path("out/runs.csv"))}
        self.assertEqual(len(runs), 6)
        row = runs["ranks-2_r2"]
        self.assertEqual((row["state"], row["ranks"], row["repeat"], row["tokens_per_s"]), ("done", "2", "2", "200.0"))
        self.assertEqual((row["step_p50_s"], row["final_loss"], row["planned_bytes"]), ("0.005", "1.5", "1000"))
        self.assertEqual((row["phase_forward_s"], row["phase_forward.gemm_s"]), ("0.5", "0.25"))

    def test_means_and_spread(self):
        points = {row["ranks"]: row for row in rows(self.fake.path("out/points.csv"))}
        # Rates of one rank: 100 and 110. Mean 105; deviations of 5, so std = sqrt((25 + 25) / 1); spread 10 / 105.
        one = points["1"]
        self.assertEqual((float(one["tokens_per_s"]), one["runs"]), (105.0, "2"))
        self.assertAlmostEqual(float(one["std"]), 50 ** 0.5)
        self.assertAlmostEqual(float(one["spread"]), 10 / 105)
        self.assertEqual((float(one["min"]), float(one["max"])), (100.0, 110.0))

    def test_scaling_against_the_smallest_and_the_ideal(self):
        points = {row["ranks"]: row for row in rows(self.fake.path("out/points.csv"))}
        # Means: 105, 190, 320.
        for ranks, speedup, ideal in (("1", 1.0, 1), ("2", 190 / 105, 2), ("4", 320 / 105, 4)):
            self.assertAlmostEqual(float(points[ranks]["speedup"]), speedup)
            self.assertEqual(float(points[ranks]["ideal"]), ideal)
            self.assertAlmostEqual(float(points[ranks]["efficiency"]), speedup / ideal)
        self.assertIn("0.90476", self.out)

    def test_collect_alone_starts_nothing(self):
        before = self.fake.calls("start")
        code, out, error = self.fake.run("--collect")
        self.assertEqual((code, self.fake.calls("start")), (0, before), error)
        self.assertIn("efficiency", out)

    def test_tables_are_replaced_as_a_whole(self):
        names = ("study.json", "runs.csv", "points.csv")
        for name in names:
            os.link(self.fake.path(f"out/{name}"), self.fake.path(f"before_{name}"))  # keeps the file that is replaced
            with open(self.fake.path(f"before_{name}"), "a", encoding="utf-8") as file:
                file.write("before")
        self.assertEqual(self.fake.run("--collect")[0], 0)
        for name in names:
            with open(self.fake.path(f"before_{name}"), encoding="utf-8") as file:
                self.assertTrue(file.read().endswith("before"), name)
            with open(self.fake.path(f"out/{name}"), encoding="utf-8") as file:
                self.assertNotIn("before", file.read())

    def test_a_baseline_that_moves_is_told(self):
        fake = Fake("moves")
        fake.study("deck: deck.yaml\nfolder: out\nscaling: strong\nsweep:\n  - {ranks: [2, 4], model.heads: 8}\n"
                   "  - {ranks: 4, model.heads: 7}\n  - {ranks: [2, 4], model.heads: 6}\n")
        self.assertNotIn("is done: speed-up", fake.run()[2])
        fake.study("deck: deck.yaml\nfolder: out2\nscaling: strong\nset: {x.y: 1}\nsweep: {ranks: [2, 4], x.z: [1]}\n")
        fake.run()
        write(fake.path("out2/ranks-2/results/summary.json"), "{")
        error = fake.run("--collect")[2]
        self.assertIn("scaling: of {'x.z': '1'} no run on 2 ranks is done: speed-up and efficiency are over 4 ranks", error)

    def test_experts_have_columns(self):
        fake = Fake("experts")
        fake.study("deck: deck.yaml\nfolder: out\nrepeats: 2\nsweep:\n  - {ranks: 2, moe.routing: balanced}\n"
                   "  - {ranks: 2, moe.routing: zipf, moe.skew: [0.5, 1]}\n")
        code, out, error = fake.run()
        self.assertEqual(code, 0, error)
        runs = {row["run"]: row for row in rows(fake.path("out/runs.csv"))}
        points = {row["moe.skew"]: row for row in rows(fake.path("out/points.csv"))}
        self.assertEqual([row["busiest_rank"] for row in runs.values()], ["", "1.5", "2.0"] * 2)
        self.assertEqual((points["1"]["expert_tokens_mean"], points["1"]["expert_tokens_most"]), ("4.0", "8.0"))
        self.assertEqual((points["1"]["busiest_rank"], points["1"]["expert_rounds"]), ("2.0", "1.5"))
        self.assertEqual(points["1"]["dispatch_s"], "0.375")  # of 0.25 and 0.5
        self.assertIn("expert_tokens_most  busiest_rank", out)
        self.assertNotIn("busiest_rank", self.out)

    def test_points_of_skeletons_have_steps_and_no_rates(self):
        fake = Fake("skeleton")
        fake.study("deck: deck.yaml\nfolder: out\nscaling: strong\nsweep:\n  - {ranks: [1, 2], model.heads: 6}\n"
                   "  - {ranks: [1, 2], model.heads: 8, run.skeleton: communication}\n")
        code, out, error = fake.run()
        self.assertEqual(code, 0, error)
        points = rows(fake.path("out/points.csv"))
        self.assertEqual(len(points), 4)
        for point in points:
            skeleton = point["model.heads"] == "8"
            self.assertEqual(point["skeleton"], "communication" if skeleton else "")
            self.assertEqual([point[key] == "" for key in ("tokens_per_s", "min", "max", "efficiency")], [skeleton] * 4)
            self.assertGreater(float(point["step_p50_s"]), 0)
        self.assertIn("communication", out)

    def test_a_busy_machine_is_told(self):
        fake = Fake("busy")
        fake.study("deck: deck.yaml\nfolder: out\nset: {model.heads: 12}\nsweep: {ranks: [1, 2]}\n")
        code, _, error = fake.run()
        self.assertEqual(code, 0, error)
        self.assertEqual(error.count("the machine was busy"), 1)
        self.assertIn("warning: ranks-2: the machine was busy: a rank had work and no core for 37.5 % of its time, other programs "
                      "took 12.5 % of a rank's CPUs: its figures do not tell of the program", error)
        runs = {row["run"]: row for row in rows(fake.path("out/runs.csv"))}
        self.assertEqual([runs["ranks-2"][key] for key in ("busy", "cpu_least", "without_core_most", "other_programs_most")],
                         ["True", "0.5", "0.375", "0.125"])
        points = {row["ranks"]: row for row in rows(fake.path("out/points.csv"))}
        self.assertEqual((points["1"]["busy_runs"], points["2"]["busy_runs"]), ("0", "1"))

    def test_a_point_without_figures_has_a_row(self):
        fake = Fake("lacking")
        fake.study("deck: deck.yaml\nfolder: out\nscaling: strong\nsweep: {ranks: [1, 2], model.heads: [8, 7, 9]}\n")
        code, out, error = fake.run()
        self.assertEqual(code, 5, error)
        points = {(row["ranks"], row["model.heads"]): row for row in rows(fake.path("out/points.csv"))}
        self.assertEqual(len(points), 6)
        keys = ("runs", "failed_runs", "missing_runs", "why", "tokens_per_s", "speedup")
        self.assertEqual([points["2", "8"][key] for key in keys], ["1", "0", "0", "", "180.0", "1.8"])
        self.assertEqual([points["2", "7"][key] for key in keys], ["0", "1", "0", "ranks-2_heads-7: failed, exit code 5", "", ""])
        self.assertEqual([points["2", "9"][key] for key in keys], ["0", "0", "1", "ranks-2_heads-9: unfinished, stopped before step 3", "", ""])
        self.assertIn("failed_runs  missing_runs", out)
        self.assertNotIn("failed_runs", self.out)
        fake.study("deck: deck.yaml\nfolder: out3\nsweep: {ranks: [1, 2]}\n")
        self.assertEqual(fake.run("--collect")[0], 75)
        self.assertEqual([row["why"] for row in rows(fake.path("out3/points.csv"))], ["ranks-1: not run yet", "ranks-2: not run yet"])

    def test_warnings_are_kept_for_pages(self):
        fake = Fake("kept")
        fake.study("deck: deck.yaml\nfolder: out\nscaling: weak\nset: {data.batch: 8, model.heads: 12}\nsweep: {ranks: [1, 2]}\n")
        error = fake.run()[2]
        with open(fake.path("out/study.json"), encoding="utf-8") as file:
            kept = json.load(file)["warnings"]
        self.assertEqual([line.removeprefix("[shard8] warning: ") for line in error.splitlines() if "warning" in line], kept)
        self.assertEqual(len(kept), 2)

    def test_a_batch_that_grows_is_no_strong_scaling(self):
        fake = Fake("grows")
        fake.study("deck: deck.yaml\nfolder: out\nscaling: strong\nsweep:\n  - {ranks: 1, x.y: 1, data.batch: 8}\n"
                   "  - {ranks: 2, x.y: 1, data.batch: 8}\n")
        self.assertNotIn("warning", fake.run()[2])
        fake.study("deck: deck.yaml\nfolder: out2\nscaling: weak\nset: {data.batch: 8}\nsweep: {ranks: [1, 2]}\n")
        code, _, error = fake.run()
        self.assertEqual(code, 0)
        self.assertIn("warning: scaling: weak, but the batch of a data rank is 4, 8 in the sweep: give "
                      "data.batch_per_rank one value", error)
