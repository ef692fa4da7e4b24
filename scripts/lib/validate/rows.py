# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Reads and checks the file of rows."""

import csv
import dataclasses
import re

from . import Refused

WHOLE = ("layers", "hidden", "ffn", "heads", "kv_heads", "vocab", "seq", "gpus", "tensor", "shard", "replicate",
         "micro_batch", "global_batch", "grad_accum")
CHOICES = {"activation": ("swiglu", "geglu", "gelu", "squared relu"), "tensor_overlap": ("", "-", "no", "yes"),
           "scored": ("yes", "no", "own"), "anchor": ("yes", "no")}
RECOMPUTE = ("none", "selective", "full")  # other texts describe what a stack does
TEXTS = ("id", "source", "stack", "gpu", "model", "precision", "recompute")
NUMBERS = ("step_time_s",)
TOKENS, TOLERANCE = "tokens_per_s_per_gpu", 0.02  # chosen: more than rounding of both
NOT_READ = (TOKENS, "note")  # not of Row: the first is only compared
COLUMNS = TEXTS + WHOLE + NUMBERS + tuple(CHOICES)
GATED = ("swiglu", "geglu")


@dataclasses.dataclass(frozen=True)
class Row:
    """One row. Texts as they stand in the file, but words that are choices are in lower case; `line` counts from 1."""

    line: int
    id: str
    source: str
    stack: str
    gpu: str
    model: str
    precision: str
    recompute: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    vocab: int
    seq: int
    gpus: int
    tensor: int
    shard: int
    replicate: int
    micro_batch: int
    global_batch: int
    grad_accum: int
    step_time_s: float
    activation: str
    tensor_overlap: str
    scored: str
    anchor: bool

    @property
    def fp8(self):
        return is_fp8(self.precision)

    @property
    def overlapped(self):
        return self.tensor_overlap == "yes" and self.tensor > 1

    @property
    def sequences_per_gpu(self):
        return self.global_batch / self.gpus

    @property
    def series(self):
        """What a series of rows has in common, as a text."""
        source = re.sub(r"[ ,]+T\d+$", "", self.source)
        parts = [source, self.stack, self.gpu, self.model, self.precision, f"tensor {self.tensor}",
                 f"recompute {self.recompute or '-'}", f"tensor overlap {self.tensor_overlap or '-'}"]
        return " | ".join(parts)

    @property
    def flops(self):
        """FLOPs of the model for one sequence, forward and backward, attention causal, nothing twice."""
        keys = self.hidden // self.heads * self.kv_heads
        linears = 3 if self.activation in GATED else 2
        layer = self.hidden * (2 * self.hidden + 2 * keys) + linears * self.hidden * self.ffn
        weights = self.layers * layer + self.vocab * self.hidden
        return self.seq * (6.0 * weights + 6.0 * self.layers * self.hidden * self.seq)


def is_fp8(precision):
    return precision.lower().startswith(("float8", "fp8"))


def read(path):
    """The rows. Refused with every error of the file, each with its line and column."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            table, lines = _table(file)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Refused(f"{path}: cannot read the rows: {error}") from error
    if not table:
        raise Refused(f"{path}: the file is empty: its first line names the columns {', '.join(COLUMNS)}")
    header, head = [name.strip() for name in table[0]], lines[0]
    errors = []
    for name in header:
        if name not in COLUMNS + NOT_READ:
            errors.append(f"{path}:{head}: unknown column '{name}': columns are {', '.join(COLUMNS + NOT_READ)}")
        if header.count(name) > 1:
            errors.append(f"{path}:{head}: column '{name}' is there more than once")
    errors += [f"{path}:{head}: column '{name}' is missing" for name in COLUMNS if name not in header]
    if errors:
        raise Refused(list(dict.fromkeys(errors)))
    rows, ids = [], {}
    for line, fields in zip(lines[1:], table[1:]):
        if not any(field.strip() for field in fields):
            continue
        row = _row(path, line, header, fields, errors)
        if row is None:
            continue
        if row.id in ids:
            errors.append(f"{path}:{line}: row {row.id}: column id: line {ids[row.id]} has it, too")
        ids[row.id] = line
        rows.append(row)
    if not rows and not errors:
        errors.append(f"{path}: no row follows the names of the columns")
    if errors:
        raise Refused(errors)
    return rows


def _table(file):
    """The fields of each row, and the line on which the row begins: a quoted field may have line breaks."""
    reader = csv.reader(file)
    table, lines, line = [], [], 1
    for fields in reader:
        table.append(fields)
        lines.append(line)
        line = reader.line_num + 1
    return table, lines


def _row(path, line, header, fields, errors):
    before = len(errors)
    if len(fields) != len(header):
        errors.append(f"{path}:{line}: {len(fields)} fields, but the file has {len(header)} columns")
        return None
    text = {name: field.strip() for name, field in zip(header, fields)}

    def wrong(column, expected):
        errors.append(f"{path}:{line}: row {text['id'] or '?'}: column {column} = '{text[column]}': expected {expected}")

    values = {"line": line}
    for column in TEXTS:
        values[column] = text[column]
        if not text[column] and column != "recompute":
            wrong(column, "a text")
    if text["recompute"] == "-" or text["recompute"].lower() in RECOMPUTE:
        values["recompute"] = text["recompute"].lower().strip("-")
    for column in WHOLE:
        if re.fullmatch(r"[1-9]\d{0,8}", text[column]):
            values[column] = int(text[column])
        else:
            wrong(column, "a whole number from 1")
    for column in NUMBERS:
        try:
            values[column] = float(text[column])
            if not 0 < values[column] < 1e9:
                raise ValueError
        except ValueError:
            wrong(column, "a number of seconds above 0")
    for column, choices in CHOICES.items():
        values[column] = text[column].lower()
        if values[column] not in choices:
            wrong(column, " or ".join(choice or "nothing" for choice in choices))
    precision = text["precision"].lower().removeprefix("amp_")  # as llm-foundry's tables name them
    if precision == "bfloat16" or text["precision"].lower().startswith("amp_"):
        values["precision"] = "bf16" if precision == "bfloat16" else precision
    if not is_fp8(precision) and precision not in ("bf16", "bfloat16") and text["precision"]:
        wrong("precision", "bf16, bfloat16, or a name that begins with float8 or fp8, perhaps behind amp_")
    if len(errors) > before:
        return None
    values["anchor"] = values["anchor"] == "yes"
    row = Row(**values)
    if row.tensor * row.shard * row.replicate != row.gpus:
        wrong("gpus", f"tensor x shard x replicate = {row.tensor * row.shard * row.replicate}")
    batch = row.micro_batch * row.grad_accum * row.shard * row.replicate
    if batch != row.global_batch:
        wrong("global_batch", f"micro_batch x grad_accum x shard x replicate = {batch}")
    if row.hidden % row.heads:
        wrong("heads", f"a divisor of hidden = {row.hidden}")
    if row.heads % row.kv_heads:
        wrong("kv_heads", f"a divisor of heads = {row.heads}")
    if len(errors) == before and text.get(TOKENS, "") not in ("", "-"):
        tokens = row.seq * row.sequences_per_gpu / row.step_time_s
        try:
            given = float(text[TOKENS])
            if not 0 < given < 1e9:
                raise ValueError
            if abs(given / tokens - 1) > TOLERANCE:
                wrong(TOKENS, f"{tokens:.5g}, by step_time_s = {text['step_time_s']}, within {100 * TOLERANCE:.0f} %: one of "
                              "the two is wrong; correct it, or leave this column empty")
        except ValueError:
            wrong(TOKENS, "a number above 0, or nothing")
    return row if len(errors) == before else None
