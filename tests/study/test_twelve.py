# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""inputs/studies/twelve.yaml with the program itself, killed, stopped and resumed, up to its tables and pictures."""
import csv
import os
import signal
import subprocess
import unittest

from killed import done_twice, kill_with_mpiexec, ledger, processes, run, start, starts, wait_for, wait_for_steps

SOURCES = os.environ["SHARD8_SOURCES"]
FILE = os.path.join(SOURCES, "inputs", "studies", "twelve.yaml")
PLOT = os.path.join(SOURCES, "scripts", "plot")
FOLDER = os.path.join("out", "studies", "twelve")


def rows(name):
    with open(os.path.join(FOLDER, name), newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Twelve(unittest.TestCase):
    def test_killed_stopped_and_resumed(self):
        study = start(FILE)
        killed = wait_for_steps(FOLDER, 4)
        self.assertEqual(len(kill_with_mpiexec(study, FOLDER, killed)), 1)
        self.assertRegex(run(FILE, "--list")[1], "12 runs: 3 done, 8 missing, 1 unfinished")

        study = start(FILE)
        left = wait_for_steps(FOLDER, 7)
        study.kill()  # its mpiexec lives on and asks its ranks to stop
        study.communicate()

        study = start(FILE)
        stopped = wait_for_steps(FOLDER, 9)
        study.send_signal(signal.SIGTERM)
        out, error = study.communicate(timeout=120)
        self.assertEqual(study.returncode, 75, error)
        self.assertIn("SIGTERM: the study stops after the run that is under way has stopped", error)
        self.assertIn("run the same command again to go on", error)

        code, out, error = run(FILE)
        self.assertEqual(code, 0, error)
        print(out, error, *ledger(FOLDER), sep="\n")
        self.assertEqual(done_twice(FOLDER), [])
        ends = [line["run"] for line in ledger(FOLDER) if line["event"] == "end" and line["state"] == "done"]
        self.assertEqual((len(ends), len(set(ends))), (12, 12))
        again = {name for name in starts(FOLDER) if starts(FOLDER).count(name) > 1}
        self.assertLessEqual(again, {killed, left, stopped})
        self.assertIn(killed, again)
        wait_for(lambda: not any(processes(FOLDER, name) for name in set(starts(FOLDER))))

        self.assertEqual([row["state"] for row in rows("runs.csv")], ["done"] * 12)
        self.assertEqual([(row["ranks"], row["fp8.recipe"], row["runs"]) for row in rows("points.csv")],
                         [(ranks, recipe, "3") for ranks in "12" for recipe in ("none", "delayed")])
        self.assertTrue(all(float(row["tokens_per_s"]) > 0 and row["efficiency"] for row in rows("points.csv")))
        before = len(ledger(FOLDER))
        self.assertIn("12 runs, 12 done, 0 to run", run(FILE)[2])
        self.assertEqual(len(ledger(FOLDER)), before)

        plotted = subprocess.run([PLOT, FOLDER, "--svg", "svg", "--png", "png"], text=True, capture_output=True, check=False)
        self.assertEqual(plotted.returncode, 0, plotted.stderr)
        pictures = ["communication", "loss", "memory", "phases", "scaling"]
        self.assertEqual(sorted(os.listdir("svg")), [f"{name}.svg" for name in pictures])
        self.assertEqual(sorted(os.listdir("png")), [f"{name}.png" for name in pictures])
        self.assertTrue(os.path.getsize(os.path.join(FOLDER, "report.html")) > 10000)
