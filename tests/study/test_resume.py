# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""A study goes on where it stopped: no finished run starts again, and no result of another study counts."""
import json
import os
import signal
import time
import unittest

from fake import Fake, write

SIX = "deck: deck.yaml\nfolder: out\nrepeats: 2\nscaling: strong\nsweep: {ranks: [1, 2, 4]}\n"
NAMES = [f"ranks-{n}_r{r}" for r in (1, 2) for n in (1, 2, 4)]


class Resume(unittest.TestCase):
    def setUp(self):
        self.fake = Fake(self._testMethodName)
        self.fake.study(SIX)

    def summary(self, run):
        return self.fake.path(f"out/{run}/results/summary.json")

    def wait_for(self, what):
        end = time.monotonic() + 30
        while not what():
            self.assertLess(time.monotonic(), end, "waited in vain")
            time.sleep(0.01)

    def test_all_runs_once_and_then_none(self):
        code, out, error = self.fake.run()
        self.assertEqual(code, 0, error)
        self.assertEqual(self.fake.calls("start"), NAMES)
        self.assertIn("0.7619", out)
        code, out, error = self.fake.run()
        self.assertEqual((code, self.fake.calls("start")), (0, NAMES), error)
        self.assertIn("6 done, 0 to run", error)

    def test_the_program_says_the_name_of_the_summary(self):
        self.fake = Fake("named", summary="it's run.json")
        self.fake.study(SIX)
        self.assertEqual(self.fake.run()[0], 0)
        code, _, error = self.fake.run()
        self.assertIn("6 done, 0 to run", error)
        self.assertEqual((code, self.fake.calls("start")), (0, NAMES))
        with open(self.fake.path("out/ranks-2_r1/results/it's run.json"), "r+", encoding="utf-8") as file:
            file.truncate(200)
        self.assertRegex(self.fake.run("--list")[1], "refused: it's run.json is not whole: ")

    def test_a_list_tells_jobs_that_wait_and_run(self):
        write(self.fake.path("sbatch"), '#!/bin/sh\nfor w; do :; done\nprintf "%s" "$w" >list\necho 7\n', 0o700)
        write(self.fake.path("squeue"), '#!/bin/sh\necho "7 0 RUNNING array.sbatch cpu $(cat list)"\n'
                                        'echo "7 1 PENDING array.sbatch cpu $(cat list)"\n', 0o700)
        path = {"PATH": f"{self.fake.folder}:{os.environ['PATH']}"}
        self.fake.study("deck: deck.yaml\nfolder: out\nsweep: {ranks: 2, model.heads: [4, 5, 6]}\n")
        self.assertEqual(self.fake.run("--slurm", **path)[0], 75)
        code, out, error = self.fake.run("--slurm", "--list", **path)
        self.assertEqual(code, 0, error)
        self.assertRegex(out, r"heads-4 +2 ranks  running: job 7_0\n")
        self.assertRegex(out, r"heads-5 +2 ranks  queued: job 7_1\n")
        self.assertRegex(out, r"heads-6 +2 ranks  unfinished: no summary.json\n")
        self.assertIn("3 runs: 1 queued, 1 running, 1 unfinished", out)
        write(self.fake.path("out/heads-6/end.json"), '{"code": 7, "seconds": 1}\n')  # as array.sbatch
        self.assertRegex(self.fake.run("--slurm", "--list", **path)[1], r"heads-6 +2 ranks  failed: exit code 7\n")
        code, out, error = self.fake.run("--slurm", "--dry-run", **path)  # only what is not in the queue
        self.assertEqual((code, out.count("sbatch --parsable"), out.count("--array=0-0 ")), (0, 1, 1), error)
        self.assertIn("# job 0: out/heads-6\n", out)
        self.assertIn("3 runs, 0 done, 2 in the queue, 1 to submit", error)
        with open(self.fake.path("out/heads-5/run.json"), encoding="utf-8") as file:
            self.assertIn("--array=0-2 ", json.load(file)["command"])  # that of its array

    def test_a_dry_run_prints_the_arrays(self):
        code, out, error = self.fake.run("--slurm", "--dry-run")
        self.assertEqual(code, 0, error)
        self.assertEqual(out.count("sbatch --parsable --array=0-1 "), 3)  # of 1, 2 and 4 ranks
        self.assertRegex(out, r"array.sbatch cpu \S*/out/array_2_TIME.txt\n# job 0: out/ranks-2_r1\n# job 1: out/ranks-2_r2\n")
        self.assertFalse(os.path.exists(self.fake.path("out")))

    def test_a_list_tells_the_run_that_is_under_way(self):
        process = self.fake.start(FAKE_SLEEP="3")
        self.wait_for(lambda: self.fake.calls("start"))
        out = self.fake.run("--list")[1]
        process.kill()
        process.communicate()
        self.assertRegex(out, r"ranks-1_r1 +1 rank  running: process(es)? [0-9]+")
        self.assertIn("6 runs: 5 missing, 1 running", out)

    def test_killed_in_the_middle(self):
        process = self.fake.start(FAKE_SLEEP="0.5")
        self.wait_for(lambda: len(self.fake.calls("start")) == 3)
        process.kill()
        process.communicate()
        finished = self.fake.calls("end")
        self.assertEqual(len(finished), 2)
        code, _, error = self.fake.run()
        self.assertEqual(code, 0, error)
        self.assertEqual(sorted(self.fake.calls("end")), sorted(NAMES))  # each finished exactly once
        self.assertEqual(len(self.fake.calls("start")), 7)               # the one that was killed began twice
        for name in finished:
            self.assertEqual(self.fake.calls("start").count(name), 1)

    def test_a_run_that_outlives_its_study_counts(self):
        with open(self.fake.launcher, encoding="utf-8") as file:
            text = file.read()
        write(self.fake.launcher, text.replace("shift\n", "trap '' TERM\nshift\n", 1), 0o700)
        process = self.fake.start(FAKE_SLEEP="3")
        self.wait_for(lambda: self.fake.calls("start"))
        process.kill()
        process.communicate()
        code, _, error = self.fake.run()
        self.assertEqual(code, 0, error)
        self.assertRegex(error, r"ranks-1_r1: ending processes \[[0-9]+\], left by a study that was killed")
        self.assertIn("6 runs, 1 done, 5 to run", error)
        self.assertEqual(self.fake.calls("start"), NAMES)
        with open(self.fake.path("out/ledger.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([(line["event"], line.get("state")) for line in lines[:3]],
                         [("start", None), ("end", "done"), ("start", None)])

    def test_a_signal_stops_it(self):
        process = self.fake.start(FAKE_SLEEP="1")
        self.wait_for(lambda: len(self.fake.calls("start")) == 1)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, error)
        self.assertIn("run the same command again to go on", error)
        self.assertEqual(self.fake.calls("start"), NAMES[:1])
        self.assertEqual(self.fake.run()[0], 0)
        self.assertEqual(sorted(self.fake.calls("end")), sorted(NAMES))

    def test_half_written_results_are_refused_and_made_anew(self):
        self.assertEqual(self.fake.run()[0], 0)
        with open(self.summary(NAMES[1]), "r+", encoding="utf-8") as file:
            file.truncate(200)
        with open(self.summary(NAMES[2]), encoding="utf-8") as file:
            summary = json.load(file)
        del summary["figures"]
        with open(self.summary(NAMES[2]), "w", encoding="utf-8") as file:
            json.dump(summary, file)
        summary["end"]["finished"] = False
        summary["figures"] = {}
        with open(self.summary(NAMES[3]), "w", encoding="utf-8") as file:
            json.dump(summary, file)
        _, out, _ = self.fake.run("--list")
        self.assertRegex(out, NAMES[1] + r" +2 ranks  refused: summary.json is not whole: ")
        self.assertRegex(out, NAMES[2] + r" +4 ranks  refused: summary.json is not whole: no 'figures'")
        self.assertRegex(out, NAMES[3] + r" +1 rank  unfinished: stopped before step 9")
        self.assertIn("6 runs: 3 done, 2 refused, 1 unfinished", out)
        code, _, error = self.fake.run()
        self.assertEqual(code, 0, error)
        self.assertEqual(self.fake.calls("start")[6:], NAMES[1:4])

    def test_results_of_another_study_do_not_count(self):
        self.assertEqual(self.fake.run()[0], 0)
        self.fake.study(SIX + "set: {run.steps: 7}\n")
        self.assertIn("6 refused", self.fake.run("--list")[1])
        self.fake.study(SIX)
        with open(self.fake.path("deck.yaml"), "a", encoding="utf-8") as file:
            file.write("# changed\n")
        self.assertIn("refused: belongs to another text of the deck", self.fake.run("--list")[1])
        self.fake.set_version("def456")
        self.assertIn("refused: belongs to another version of the program", self.fake.run("--list")[1])
        self.assertEqual(self.fake.run()[0], 0)
        self.assertEqual(self.fake.calls("start"), NAMES * 2)

    def test_two_studies_in_one_folder(self):
        first = self.fake.start(FAKE_SLEEP="1")
        self.wait_for(lambda: self.fake.calls("start"))
        code, _, error = self.fake.run()
        self.assertEqual(code, 3)
        self.assertRegex(error, r"another study works in 'out': process [0-9]+ on ")
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=60)

    def test_a_failed_run_is_told_and_tried_again(self):
        self.fake.study("deck: deck.yaml\nfolder: out\nsweep: {ranks: 2, model.heads: [7, 8]}\n")
        for _ in range(2):
            code, _, error = self.fake.run()
            self.assertEqual(code, 5)
            self.assertIn("heads-7: failed, exit code 5; see out/heads-7/log.txt", error)
        self.assertEqual(self.fake.calls("start"), ["heads-7", "heads-8", "heads-7"])

    def test_a_run_that_its_deck_stops_is_no_failure(self):
        # 9 stops with a checkpoint, exit code 75; 11 without one, exit code 5.
        self.fake.study("deck: deck.yaml\nfolder: out\nsweep: {ranks: 2, model.heads: [9, 11, 8]}\n")
        code, _, error = self.fake.run()
        self.assertEqual(code, 75, error)
        for name in ("heads-9", "heads-11"):
            self.assertIn(f"{name}: stopped before step 3; the next call runs it from its begin", error)
        self.assertIn("1 of 3 runs are done", error)
        self.assertEqual(self.fake.run()[0], 75)
        self.assertEqual(self.fake.calls("start"), ["heads-9", "heads-11", "heads-8", "heads-9", "heads-11"])

    def test_a_bad_run_is_found_before_any_starts(self):
        self.fake.study("deck: deck.yaml\nfolder: out\nsweep: {ranks: 2, model.heads: [8, 3]}\n")
        code, _, error = self.fake.run()
        self.assertEqual(code, 2)
        self.assertIn("the program refuses the run 'heads-3' on 2 ranks:\ndeck.yaml: error: 3 heads", error)
        self.assertEqual(self.fake.calls("start"), [])

    def test_nothing_is_written_by_a_look(self):
        for option in ("--list", "--dry-run"):
            code, out, error = self.fake.run(option)
            self.assertEqual(code, 0, error)
            self.assertIn("ranks-4_r2", out)
        self.assertFalse(os.path.exists(self.fake.path("out")))

    def test_a_folder_of_others_is_left_alone(self):
        os.makedirs(self.fake.path("out/ranks-1_r1"))
        with open(self.fake.path("out/ranks-1_r1/thesis.tex"), "w", encoding="utf-8") as file:
            file.write("mine")
        code, _, error = self.fake.run()
        self.assertEqual(code, 3)
        self.assertIn("is not one of a study: it has no run.json", error)
        self.assertTrue(os.path.exists(self.fake.path("out/ranks-1_r1/thesis.tex")))

    def test_usage(self):
        for options, part in ((("--slum",), "unrecognized arguments: --slum"), (("--wait",), "--wait needs --slurm"),
                              (("--program", "nothere"), "there is no program 'nothere'")):
            code, _, error = self.fake.run(*options)
            self.assertIn(code, (2, 3))
            self.assertIn(part, error)
