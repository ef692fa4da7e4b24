# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Results of a run and of a study, made up, with every kind of picture."""
import json
import os

from fake import write

PHASES = [("data", "", 1), ("gather_wait", "", 8), ("forward", "", 30), ("forward", "attention", 5), ("forward", "gemm", 12),
          ("forward", "tensor_comm", 8), ("forward", "elementwise", 3), ("backward", "", 60), ("backward", "attention", 9),
          ("backward", "gemm", 30), ("backward", "tensor_comm", 15), ("backward", "elementwise", 4), ("reduce_wait", "", 4),
          ("optimizer", "", 2), ("quantize", "", 1), ("checkpoint_stall", "", 0), ("other", "", 1), ("step", "", 107)]
STEPS = 40


def run(folder, ranks=4, every=False):
    """A run's output.dir, with `every` also output.timing_ranks. Times in milliseconds; a step has 107 of them."""
    os.makedirs(folder)
    rows = [{"phase": p, "part": part, "min_s": ms * 9e-4, "mean_s": ms * 1e-3, "max_s": ms * 1.1e-3} for p, part, ms in PHASES]
    collectives = [{"operation": op, "group": group, "group_size": 2, "dtype": "bf16", "bytes": 1024, "calls_per_step": 2.0,
                    "total_s_per_step": total, "exposed_s_per_step": exposed, "algbw_bytes_per_s": 1.0}
                   for op, group, total, exposed in (("all_gather", "shard", 0.2, 0.005), ("all_gather", "tensor", 0.01, 0.01))]
    in_flight = [{"operation": op, "group": group, "group_size": 2, "s_per_step": seconds, "exposed_s_per_step": exposed}
                 for op, group, seconds, exposed in (("all_gather", "shard", 0.012, 0.005), ("all_gather", "tensor", 0.01, 0.01),
                                                     ("any", "", 0.017, 0.015))]
    summary = {"version": {"shard8": "0.1.0", "git_hash": "abc"}, "ranks": ranks, "hosts": ["<a&b>"] * ranks,
               "deck": {"mesh": {"replicate": 1, "shard": ranks, "tensor": 1}, "output": {}, "model": {"arch": "llama"}},
               "end": {"finished": True}, "phases": rows, "collectives": collectives, "in_flight": in_flight, "loss": {"final": 2.0},
               "steps": {"measured": STEPS, "p50_s": 0.107, "p95_s": 0.12, "p99_s": 0.13},
               "figures": {"tokens_per_s": 1000.0 * ranks, "exposed_communication": 0.3},
               "memory_per_rank": [{"kind": k, "bytes": b << 20} for k, b in
                                   (("weights", 10), ("activations", 50), ("planned_total", 60), ("measured_peak_growth", 66))]}
    write(os.path.join(folder, "summary.json"), json.dumps(summary))
    if every:
        names = [(p if p != "step" else "total") + ("." + part if part else "") for p, part, _ in PHASES]
        table = [",".join(["step", "rank", *names])]
        table += [",".join(map(str, [step, rank, *(ms * (1 + rank) / 1e3 for _, _, ms in PHASES)]))
                  for step in range(STEPS) for rank in range(ranks)]
        write(os.path.join(folder, "every.csv"), "\n".join(table) + "\n")
        summary["deck"]["output"]["timing_ranks"] = "every.csv"
        write(os.path.join(folder, "summary.json"), json.dumps(summary))
    lines = ["step,phase,part,min_s,mean_s,max_s,worst_rank"]
    for step in range(STEPS):
        lines += [f"{step},{p},{part},0,{ms * (1 + step % 7 / 20) / 1e3},{ms * (1 + step % 5 / 10) / 1e3},{step % ranks}"
                  for p, part, ms in PHASES]
    write(os.path.join(folder, "timing.csv"), "\n".join(lines) + "\n")
    write(os.path.join(folder, "metrics.jsonl"),
          "".join(json.dumps({"step": s, "loss": 5.0 - s * 0.05}) + "\n" for s in range(STEPS)))


def projection(path, ranks=4, times=1.0, machine="h100-sxm", tensor=1):
    """What `shard8 project --json` writes: a step of `times` 107 ms, with a band of 10 %, in a folder without a run's files."""
    folder = path + ".folder"
    run(folder, ranks)
    with open(os.path.join(folder, "summary.json"), encoding="utf-8") as file:
        summary = json.load(file)
    step = 0.107 * times
    for row in summary["phases"]:
        row.update({key: row[key] * times for key in ("min_s", "mean_s", "max_s")})
    summary["deck"]["mesh"]["tensor"] = tensor
    summary["projected"] = {
        "machine": machine, "file": f"{machine}.yaml", "stack": None, "sources": [{"name": "here", "kind": "measured", "text": "<x>"}],
        "step_s": {"low": step / 1.1, "nominal": step, "high": step * 1.1, "narrowed": False}, "goodput": {"best": 0.93},
        "sensitivities": [{"property": "network.bandwidth", "halved_s": step * 1.25, "doubled_s": step * 0.9},
                          {"property": "device.power", "halved_s": step * 1.5, "doubled_s": step}]}
    write(path, json.dumps(summary))


def change(folder, changes):
    """Changes keys of the summary of a made-up run: {("steps", "measured"): 0}."""
    path = os.path.join(folder, "summary.json")
    with open(path, encoding="utf-8") as file:
        summary = json.load(file)
    for keys, value in changes.items():
        at = summary
        for key in keys[:-1]:
            at = at[key]
        at[keys[-1]] = value
    write(path, json.dumps(summary))


def gemms(path):
    rows = [{"key": key, "m": 2048, "n": n, "k": k, "dtype": "bf16", "product_ms": ms}
            for key, n, k, ms in (("qkv_fprop", 768, 512, 2.0), ("fc1_fprop", 4096, 512, 9.0), ("proj_dgrad", 512, 64, 0.5))]
    write(path, json.dumps({"machine": "m", "date": "2026-01-01T00:00:00Z", "commit": "abc", "rows": rows}))


def gemms_of_devices(path):
    """What `bench gemm --json` writes: the second product was not timed."""
    rows = [{"key": "4096x512x256 e4m3", "m": 4096, "n": 512, "k": 256, "dtype": "e4m3", "out_dtype": "fp32", "product_ms": 0.25},
            {"key": "8x8x8 bf16", "m": 8, "n": 8, "k": 8, "dtype": "bf16", "out_dtype": "bf16", "product_ms": None}]
    write(path, json.dumps({"bench": "gemm", "machine": "m", "date": "2026-01-01T00:00:00Z", "commit": "abc", "rows": rows}))


def repeated(folder):
    """A study of one point on each of 1 and 2 ranks, run twice. Times of the second repeat are three times those of the
    first; its loss is 1 more."""
    points, runs = [], []
    for ranks in (1, 2):
        for repeat in (1, 2):
            name = f"ranks-{ranks}_r{repeat}"
            results = os.path.join(folder, name, "results")
            run(results, ranks)
            with open(os.path.join(results, "summary.json"), encoding="utf-8") as file:
                summary = json.load(file)
            for row in summary["phases"]:
                row["mean_s"] *= 2 * repeat - 1
            for row in summary["collectives"]:
                row["total_s_per_step"] *= 2 * repeat - 1
                row["exposed_s_per_step"] *= 2 * repeat - 1
            for row in summary["in_flight"]:
                row["s_per_step"] *= 2 * repeat - 1
                row["exposed_s_per_step"] *= 2 * repeat - 1
            for row in summary["memory_per_rank"]:
                row["bytes"] *= repeat
            write(os.path.join(results, "summary.json"), json.dumps(summary))
            write(os.path.join(results, "metrics.jsonl"),
                  "".join(json.dumps({"step": s, "loss": 4.0 + repeat}) + "\n" for s in range(STEPS + repeat)))
            runs.append(name)
        points.append({"ranks": ranks, "runs": 2, "tokens_per_s": 900.0 * ranks, "min": 600.0 * ranks, "max": 1200.0 * ranks,
                       "spread": 0.6, "speedup": float(ranks), "ideal": float(ranks), "efficiency": 1.0})
    write(os.path.join(folder, "study.json"), json.dumps(
        {"study": "repeated", "scaling": "strong", "swept": ["ranks"], "repeats": 2, "points": points, "runs": runs}))


def study(folder):
    """A study's folder, as scripts/study leaves it: strong scaling of one and two tensor ranks."""
    points, runs = [], []
    for tensor in (1, 2):
        for ranks in (2, 4, 8):
            name = f"ranks-{ranks}_tensor-{tensor}"
            run(os.path.join(folder, name, "results"), ranks)
            rate = 1000.0 * ranks ** 0.9 / tensor
            points.append({"ranks": ranks, "mesh.tensor": str(tensor), "runs": 1, "tokens_per_s": rate, "min": rate * 0.95,
                           "max": rate * 1.03, "spread": 0.08, "speedup": rate * tensor / (1000 * 2 ** 0.9),
                           "ideal": ranks / 2, "efficiency": (ranks / 2) ** -0.1})
            runs.append(name)
    write(os.path.join(folder, "study.json"), json.dumps(
        {"study": "sample", "scaling": "strong", "swept": ["ranks", "mesh.tensor"], "points": points, "runs": runs}))
