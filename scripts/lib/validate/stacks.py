# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Stack files, and what they and a row become: a deck and a structure file for shard8 project."""

import dataclasses
import pathlib

import yaml

from . import Refused
from .rows import GATED

# A row's GPU: its machine file, and by how much the memory's bandwidth is below that card's. Sources: NVIDIA's data sheet
# of H100 SXM (3.35 TB/s); pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md (96 GB, HBM2e, 2.4 TB/s, 500 W:
# the lower power limit is in the fitted efficiencies).
GPUS = {"H100-80G": ("h100-sxm", 1.0), "H100-96G": ("h100-sxm", 3.35 / 2.4), "H200-141G": ("h200-sxm", 1.0)}


@dataclasses.dataclass(frozen=True)
class Stack:
    path: pathlib.Path
    groups: dict  # of texts, as shard8 project reads them

    @property
    def rows(self):
        return self.groups["stack"].get("rows", "")

    @property
    def release(self):
        return self.groups["stack"].get("release", "")

    def says(self, key):
        return any(key in group for name, group in self.groups.items() if name.startswith("structure"))


def read_all(folder):
    stacks = []
    for path in sorted(pathlib.Path(folder).glob("*.yaml")):
        try:
            groups = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
            if "stack" not in groups or not all(isinstance(group, dict) for group in groups.values()):
                raise ValueError("no group 'stack', or a group without keys")
        except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
            raise Refused(f"{path}: cannot read the stack file: {error}") from error
        stacks.append(Stack(path, groups))
    return stacks


def find(stacks, row, path):
    """The stack of a row: the release that its source names, else the newest; and whether the source names it."""
    own = [stack for stack in stacks if stack.rows == row.stack]
    if not own:
        names = ", ".join(sorted({stack.rows for stack in stacks}))
        raise Refused(f"{path}:{row.line}: row {row.id}: column stack = '{row.stack}': no file of inputs/stacks has it; "
                      f"there are {names}")
    named = [stack for stack in own if stack.release and stack.release in row.source]
    return (named or own)[-1], bool(named) or not own[-1].release


def recompute(stack, row, path):
    if row.recompute in ("none", "full", "selective"):
        return row.recompute
    if stack.says("recomputed"):
        return "selective"
    if not row.recompute:
        return "none"
    raise Refused(f"{path}:{row.line}: row {row.id}: column recompute = '{row.recompute}': {stack.path.name} does not "
                  f"say what that is (structure.recomputed); expected none, selective or full")


def deck(stack, row, path):
    """The deck of a row as groups of keys."""
    gpt2 = row.activation == "gelu" and row.kv_heads == row.heads
    shard, replicate = row.shard, row.replicate
    if stack.groups["stack"].get("replicas") == "shard":
        shard, replicate = shard * replicate, 1
    return {
        "model": {"arch": "gpt2" if gpt2 else "llama", "hidden": row.hidden, "ffn": row.ffn, "layers": row.layers,
                  "heads": row.heads, "kv_heads": row.kv_heads, "vocab": row.vocab, "seq": row.seq,
                  "recompute": recompute(stack, row, path)},
        "mesh": {"replicate": replicate, "shard": shard, "tensor": row.tensor, "device": "cuda"},
        "fp8": {"recipe": "current" if row.fp8 else "none"},
        "overlap": {"enable": "true" if row.overlapped else "false"},
        "optimizer": {"lr": "1.0e-4"},
        "data": {"kind": "synthetic", "batch": row.global_batch, "micro_batch": row.micro_batch},
        "run": {"steps": 10},
    }


def structure(stack, row):
    """The stack's groups for a row: its MLP, and the memory of its GPU."""
    groups = {name: dict(group) for name, group in stack.groups.items()}
    if row.activation not in GATED:
        groups.setdefault("structure", {})["mlp"] = "plain"
    slower = GPUS[row.gpu][1]
    if slower != 1:
        kernels = groups.setdefault("kernels", {})
        kernels.setdefault("any", "1")
        groups["kernels"] = {name: f"{float(factor) * slower:.6g}" for name, factor in kernels.items()}
    return groups


def text(groups):
    """Groups of keys as YAML that shard8 reads."""
    lines = []
    for name, keys in groups.items():
        lines.append(f"{name}:")
        for key, value in keys.items():
            value = str(value)
            plain = value and all(c.isalnum() or c in " ._=+-" for c in value) and value == value.strip()
            quoted = value.replace("'", "''").replace("\n", " ")
            lines.append(f"  {key}: {value}" if plain else f"  {key}: '{quoted}'")
    return "\n".join(lines) + "\n"
