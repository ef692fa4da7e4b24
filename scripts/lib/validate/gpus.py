# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Cards that rows are of, and how a machine file stands for them."""

import dataclasses
import functools
import re

import yaml


@dataclasses.dataclass(frozen=True)
class Card:
    machine: str  # the file of inputs/machines
    bandwidth: float  # of the memory, GB/s
    watts: int


# Sources: NVIDIA's data sheets of H100 SXM (3.35 TB/s, 700 W) and H200 SXM (4.8 TB/s, 700 W); pytorch/torchtitan
# benchmarks/llama3_h100_202412_torchtitan.md (96 GB, HBM2e, 2.4 TB/s, 500 W: the lower power limit is in the fitted
# efficiencies).
CARDS = {"H100-80G": Card("h100-sxm", 3350, 700), "H100-96G": Card("h100-sxm", 2400, 500),
         "H200-141G": Card("h200-sxm", 4800, 700)}


def named(gpu):
    """A card and its power limit, as a text."""
    return f"{gpu} ({CARDS[gpu].watts} W)" if gpu in CARDS else gpu


@functools.lru_cache(maxsize=None)
def bandwidth_of(path):
    """device.bandwidth of a machine file in GB/s; None if it has none. Errors of the file are shard8 project's to say."""
    try:
        device = yaml.load(path.read_text(encoding="utf-8-sig"), Loader=yaml.BaseLoader)["device"]
        found = re.fullmatch(r"([0-9.eE+]+)( @\S+)?", device["bandwidth"])
        return float(found[1])
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return None


def slower(row, path):
    """By how much the memory of the row's card is slower than that of the machine file: 1 if the file does not say."""
    bandwidth = bandwidth_of(path)
    return bandwidth / CARDS[row.gpu].bandwidth if bandwidth else 1


def note(row, path):
    """A note if the machine file is not of the row's card, or an empty text."""
    if bandwidth_of(path) is None:
        return f"{path.name} gives no device.bandwidth: its kernels' times count for {row.gpu}"
    factor = slower(row, path)
    if factor == 1:
        return ""
    return (f"{path.name} has {bandwidth_of(path) / 1e3:.3g} TB/s of memory, {row.gpu} "
            f"{CARDS[row.gpu].bandwidth / 1e3:.3g}: kernels' bytes count {factor:.3g} times, products as in the file")
