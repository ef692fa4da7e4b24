# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""A program and a launcher in place of shard8 and mpiexec: it answers at once, and counts its runs in calls.txt."""
import os
import stat
import subprocess
import sys

STUDY = os.path.join(os.environ["SHARD8_SOURCES"], "scripts", "study")

PROGRAM = '''#!{python} -IS
import json, os, sys, time
words = sys.argv[1:]
if words[0] == "info":
    print("shard8       0.1.0 ({version})")
    sys.exit(0)
deck = dict(w.split("=", 1) for w in words if "=" in w and not w.startswith("--"))
if deck.get("model.heads") == "3":
    sys.exit("deck.yaml: error: 3 heads") if words[0] == "check" else 5
if words[0] == "check":
    if "--files" in words:
        name = deck.get("output.summary", "{summary}")
        print("output.dir " + deck["output.dir"] + "\\noutput.summary " + deck["output.dir"] + "/" + name)
        sys.exit(0)
    asked = [w for w in words if w.startswith("--ranks")]
    print("2" if asked == ["--ranks"] else "deck.yaml: good\\nmodel " + repr(sorted(deck.items())))
    sys.exit(0)
ranks, folder = int(os.environ["FAKE_RANKS"]), deck["output.dir"]
def count(word):
    with open("{here}/calls.txt", "a") as file:
        file.write(word + " " + os.path.basename(os.path.dirname(folder)) + "\\n")
count("start")
if os.path.exists("{here}/keep_environment"):
    with open("{here}/kept.json", "a") as file:
        file.write(json.dumps({{**os.environ, **deck}}) + "\\n")
time.sleep(float(os.environ.get("FAKE_SLEEP", "0")))
if deck.get("model.heads") == "7":
    sys.exit(5)
groups = {{}}
for key, value in deck.items():
    groups.setdefault(key.split(".")[0], {{}})[key.split(".")[1]] = value
groups.setdefault("data", {{}})["batch"] = int(groups.get("data", {{}}).get("batch", 8))
groups["mesh"] = {{"replicate": 1, "shard": ranks, "tensor": 1}}
repeat = 2 if folder.split("/")[-2].endswith("_r2") else 1
rate = {{(1, 1): 100.0, (1, 2): 110.0, (2, 1): 180.0, (2, 2): 200.0, (4, 1): 300.0, (4, 2): 340.0}}.get((ranks, repeat), 50.0)
os.makedirs(folder, exist_ok=True)
summary = {{"version": {{"shard8": "0.1.0", "git_hash": "{version}"}}, "deck": groups, "ranks": ranks,
           "end": {{"finished": True, "next_step": 9}}, "steps": {{"p50_s": 1 / rate, "p95_s": 2 / rate, "measured": 5}},
           "phases": [{{"phase": "forward", "part": "", "mean_s": 0.5}}, {{"phase": "forward", "part": "gemm", "mean_s": 0.25}}],
           "figures": {{"tokens_per_s": rate, "tokens_per_s_per_rank": rate / ranks}}, "loss": {{"final": 1.5}},
           "memory_per_rank": [{{"kind": "planned_total", "bytes": 1000}}], "verification": {{"status": "passed"}}}}
if "run.skeleton" in deck:
    summary["skeleton"] = deck["run.skeleton"]
    summary["figures"] = {{"exposed_communication": 0.5}}
    del summary["loss"]
if deck.get("model.heads") == "12":
    summary["processor"] = {{"busy": ranks > 1, "worst_rank": 0, "cpu": [0.5, 0.75], "without_core": [0.375, 0.0],
                            "involuntary_switches_per_s": [80.0, 1.0], "other_programs": [0.0, 0.125]}}
if "moe.skew" in deck:
    skew = float(deck["moe.skew"])
    summary["experts"] = {{"tokens": {{"least": 1, "mean": 4.0, "most": 8}}, "busiest": 1 + skew, "rounds": {{"mean": 1.5, "most": 2}},
                          **{{key: {{"mean": repeat * 0.25}} for key in ("dispatched_bytes", "dispatch_s", "products_s", "combine_s")}}}}
if deck.get("model.heads") in ("9", "11"):
    summary["end"] = {{"finished": False, "next_step": 3}}
with open(folder + "/{summary}", "w") as file:
    json.dump(summary, file)
count("end")
sys.exit(0 if summary["end"]["finished"] else 5 if deck["model.heads"] == "11" else 75)
'''

LAUNCHER = '''#!/bin/sh
shift
FAKE_RANKS=$1
export FAKE_RANKS
shift
exec "$@"
'''


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


class Fake:
    """The two programs and a deck, in a folder."""

    def __init__(self, folder, summary="summary.json"):
        os.makedirs(folder, exist_ok=True)
        self.folder = os.path.abspath(folder)
        self.program, self.launcher = self.path("shard8"), self.path("mpiexec")
        self.summary = summary
        self.set_version("abc123")
        write(self.launcher, LAUNCHER, stat.S_IRWXU)
        write(self.path("deck.yaml"), "model: {}\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def set_version(self, version):
        write(self.program, PROGRAM.format(python=sys.executable, here=self.folder, version=version,
                                           summary=self.summary), stat.S_IRWXU)

    def keep_environment(self):
        """Every run adds a line with its variables and keys to kept.json."""
        write(self.path("keep_environment"), "")

    def study(self, text):
        write(self.path("study.yaml"), text)

    def start(self, *options, **variables):
        """scripts/study in the folder, as a process."""
        environment = {**os.environ, "SHARD8_PROGRAM": self.program, "SHARD8_MPIEXEC": self.launcher, **variables}
        return subprocess.Popen([STUDY, "study.yaml", *options], cwd=self.folder, env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *options, **variables):
        """Exit code, standard output and error of scripts/study."""
        process = self.start(*options, **variables)
        out, error = process.communicate(timeout=60)
        return process.returncode, out, error

    def calls(self, word):
        """The runs that the program began (word start) or finished (word end), in order."""
        if not os.path.exists(self.path("calls.txt")):
            return []
        with open(self.path("calls.txt"), encoding="utf-8") as file:
            return [line.split()[1] for line in file if line.startswith(word)]
