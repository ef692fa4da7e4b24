# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""A small study with the program itself: weak scaling on one and two ranks."""
import csv
import json
import os
import subprocess
import unittest

from fake import STUDY, write
from killed import done_twice, kill_with_mpiexec, ledger, processes, start, starts, wait_for_steps

DECK = """model:     {arch: llama, hidden: 32, ffn: 64, layers: 2, heads: 2, vocab: 256, seq: 32}
mesh:      {shard: auto}
precision: {compute: fp32}
optimizer: {lr: 3.0e-3}
data:      {kind: synthetic, batch: 4}
run:       {steps: 8, timing_skip: 2}
"""


def study(*options):
    return subprocess.run([STUDY, "study.yaml", *options], text=True, capture_output=True, timeout=120, check=False)


class WithTheProgram(unittest.TestCase):
    def test_weak_scaling(self):
        write("deck.yaml", DECK)
        write("study.yaml", "deck: deck.yaml\nfolder: weak\nscaling: weak\nset: {data.batch_per_rank: 2}\n"
                            "sweep: {ranks: [1, 2]}\n")
        done = study()
        self.assertEqual(done.returncode, 0, done.stderr)
        with open("weak/runs.csv", newline="", encoding="utf-8") as file:
            rows = {row["ranks"]: row for row in csv.DictReader(file)}
        self.assertEqual([rows[n]["batch"] for n in ("1", "2")], ["2", "4"])
        self.assertEqual([rows[n]["shard"] for n in ("1", "2")], ["1", "2"])
        self.assertTrue(all(float(row["tokens_per_s"]) > 0 for row in rows.values()))
        self.assertIn("0 to run", study().stderr)
        # What a warning says of the machine depends on the machine.
        warnings = [line for line in done.stderr.splitlines() if "warning" in line and "the machine was busy" not in line]
        self.assertEqual(warnings, [])

    def test_killed_with_its_mpiexec(self):
        write("deck.yaml", DECK.replace("steps: 8", "steps: 200"))
        write("study.yaml", "deck: deck.yaml\nfolder: killed\nrepeats: 2\nset: {data.batch: 8}\nsweep: {ranks: [1, 2]}\n")
        process = start("study.yaml")
        name = wait_for_steps("killed", 2)
        self.assertEqual(len(kill_with_mpiexec(process, "killed", name)), 1)
        done = study()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("4 runs, 1 done, 3 to run", done.stderr)
        self.assertEqual(starts("killed"), ["ranks-1_r1", "ranks-2_r1", "ranks-2_r1", "ranks-1_r2", "ranks-2_r2"])
        self.assertEqual([line["state"] for line in ledger("killed") if line["event"] == "end"],
                         ["done", "unfinished", "done", "done", "done"])
        self.assertEqual(done_twice("killed"), [])
        self.assertEqual(processes("killed", name), {})

    def test_runs_have_checkpoints_of_their_own(self):
        write("deck.yaml", DECK + "checkpoint: {dir: all, every: 4}\n")
        write("study.yaml", "deck: deck.yaml\nfolder: own\nset: {optimizer.decay_steps: 100}\n"
                            "sweep: {ranks: 1, run.steps: [8, 12]}\n")
        done = study()
        self.assertEqual(done.returncode, 0, done.stderr)
        for steps in (8, 12):
            with open(f"own/steps-{steps}/results/metrics.jsonl", encoding="utf-8") as file:
                self.assertEqual([json.loads(line)["step"] for line in file], list(range(steps)))
            self.assertTrue(os.path.isdir(f"own/steps-{steps}/results/checkpoints/step_{steps:08d}"))
        self.assertFalse(os.path.exists("all"))
        self.assertIn("0 to run", study().stderr)

    def test_folders_of_a_study_are_its_own(self):
        """What another training left in the deck's output.dir does not count; a run whose deck changed is made anew, with
        checkpoints and a summary of another name, too."""
        deck = DECK + "checkpoint: {every: 4}\noutput: {dir: of_deck, summary: run.json}\n"
        write("deck.yaml", deck)
        launcher = os.environ["SHARD8_MPIEXEC"].split()
        subprocess.run([*launcher, "-n", "1", os.environ["SHARD8_PROGRAM"], "run", "deck.yaml", "data.seed=7"], check=True,
                       capture_output=True)
        write("study.yaml", "deck: deck.yaml\nfolder: anew\nsweep: {ranks: 1, data.seed: [1, 2]}\n")
        done = study()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("0 to run", study().stderr)
        for text in (deck.replace("3.0e-3", "2.0e-3"), deck.replace("heads: 2", "heads: 4")):
            write("deck.yaml", text)
            self.assertIn("2 refused", study("--list").stdout)
            done = study()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("2 runs, 0 done, 2 to run", done.stderr)
            self.assertIn("0 to run", study().stderr)
        with open("anew/seed-1/results/metrics.jsonl", encoding="utf-8") as file:
            self.assertEqual([json.loads(line)["step"] for line in file], list(range(8)))
        plotted = subprocess.run([os.path.join(os.path.dirname(STUDY), "plot"), "anew"], text=True, capture_output=True, check=False)
        self.assertEqual(plotted.returncode, 0, plotted.stderr)

    def test_words_of_the_program(self):
        write("deck.yaml", DECK)
        write("study.yaml", "deck: deck.yaml\nsweep: {mesh.tensor: [1, 2]}\n")
        done = study("--list")
        self.assertEqual(done.returncode, 2)
        self.assertIn("mesh.shard = auto leaves the number of ranks to the launcher", done.stderr)
        self.assertIn("or put 'ranks' into the study's sweep", done.stderr)
        write("study.yaml", "deck: deck.yaml\nsweep: {ranks: 3, mesh.tensor: 2}\n")
        self.assertIn("start 2 or 4 ranks", study("--list").stderr)
        self.assertFalse(os.path.exists("out"))
