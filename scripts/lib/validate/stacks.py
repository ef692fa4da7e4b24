# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Stack files, and what they and a row become: a deck and a structure file for shard8 project."""

import dataclasses
import pathlib
import re

import yaml

from . import Refused
from .rows import GATED, RECOMPUTE

# What describes in the column recompute which operations a stack keeps or recomputes: a text has one of these words.
DESCRIBING = frozenset("attention attn core dots ffn fc1 fc2 minimal mlp mlpwi mlpwo norm norms op ops out output outputs "
                       "proj projection projections qkv remat save saved selective wi wo".split())
# A precision's words behind float8 or fp8: the recipe of shard8 that they name. Words that say nothing are left out.
RECIPES = {"delayed": "delayed", "current": "current", "tensorwise": "current", "block": "block", "blockwise": "block",
           "mx": "mxfp8", "mxfp8": "mxfp8"}
SAYS_NOTHING = ("scale", "scaled", "scales", "scaling")


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
        raise Refused(f"{path}:{row.line}: row {row.id}: column stack = '{row.stack}': no file of inputs/stacks has it "
                      f"(--stacks names a folder of others); there are {names}")
    named = [stack for stack in own if stack.release and stack.release in row.source]
    return (named or own)[-1], bool(named) or not own[-1].release


def words_of(text):
    return [word for word in re.split(r"[^a-z0-9]+", text.lower()) if word]


def recompute(stack, row, path):
    """The deck's model.recompute, and a note on what stands for the row's column or an empty text."""
    if row.recompute in RECOMPUTE:
        return row.recompute, ""
    own = stack.says("recomputed")
    if not row.recompute:
        return ("selective", f"recompute is not given: that of {stack.path.name}") if own else \
            ("none", "recompute is not given: none")
    where = f"{path}:{row.line}: row {row.id}: column recompute = '{row.recompute}': "
    if not own:
        raise Refused(f"{where}{stack.path.name} does not say what that is (structure.recomputed); expected none, "
                      "selective or full")
    words = set(words_of(row.recompute))
    if not words & DESCRIBING or words & {"none", "no", "full"}:
        raise Refused(f"{where}expected none, selective, full, nothing, or a text on what {stack.path.name} has in "
                      f"structure.recomputed, with one of the words {', '.join(sorted(DESCRIBING))}")
    return "selective", f"recompute '{row.recompute}': that of {stack.path.name}"


def recipe(stack, row):
    """The deck's fp8.recipe, and a note on what stands for the row's precision or an empty text."""
    if not row.fp8:
        return "none", ""
    own = stack.groups.get("deck_fp8", {}).get("fp8.recipe", "current")
    words = [word for word in words_of(re.sub(r"^(float8|fp8)", "", row.precision.lower())) if word not in SAYS_NOTHING]
    if not words:
        return own, ""
    named = {RECIPES.get(word) for word in words}
    if None in named or len(named) > 1:
        return own, f"{row.precision} names no one recipe of shard8: {own}, that of {stack.path.name}, stands for it"
    (one,) = named
    return one, f"{row.precision}: recipe {one}, where {stack.path.name} has {own}" if one != own else ""


def notes(stack, row, path):
    """What of a row's columns the stack file or a guess stands for."""
    return [note for _, note in (recompute(stack, row, path), recipe(stack, row)) if note]


def deck(stack, row, path):
    """The deck of a row as groups of keys."""
    gpt2 = row.activation == "gelu" and row.kv_heads == row.heads
    shard, replicate = row.shard, row.replicate
    if stack.groups["stack"].get("replicas") == "shard":
        shard, replicate = shard * replicate, 1
    return {
        "model": {"arch": "gpt2" if gpt2 else "llama", "hidden": row.hidden, "ffn": row.ffn, "layers": row.layers,
                  "heads": row.heads, "kv_heads": row.kv_heads, "vocab": row.vocab, "seq": row.seq,
                  "recompute": recompute(stack, row, path)[0]},
        "mesh": {"replicate": replicate, "shard": shard, "tensor": row.tensor, "device": "cuda"},
        "fp8": {"recipe": recipe(stack, row)[0]},
        "overlap": {"enable": "true" if row.overlapped else "false"},
        "optimizer": {"lr": "1.0e-4"},
        "data": {"kind": "synthetic", "batch": row.global_batch, "micro_batch": row.micro_batch},
        "run": {"steps": 10},
    }


def structure(stack, row, slower=1):
    """The stack's groups for a row: its MLP, its FP8 recipe, and by how much its GPU's memory is slower (gpus.slower)."""
    groups = {name: dict(group) for name, group in stack.groups.items()}
    if row.activation not in GATED:
        groups.setdefault("structure", {})["mlp"] = "plain"
    if row.fp8:
        groups.setdefault("deck_fp8", {})["fp8.recipe"] = recipe(stack, row)[0]
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
