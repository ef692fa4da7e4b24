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
# benchmarks/llama3_h100_202412_torchtitan.md (96 GB, HBM2e, 2.4 TB/s, 500 W).
CARDS = {"H100-80G": Card("h100-sxm", 3350, 700), "H100-96G": Card("h100-sxm", 2400, 500),
         "H200-141G": Card("h200-sxm", 4800, 700)}


def named(gpu):
    """A card and its power limit, as a text."""
    return f"{gpu} ({CARDS[gpu].watts} W)" if gpu in CARDS else gpu


@functools.lru_cache(maxsize=None)
def device_figure(path, key):
    """device.KEY of a machine file (bandwidth: GB/s); None if it has none. Errors of the file are shard8 project's."""
    try:
        device = yaml.load(path.read_text(encoding="utf-8-sig"), Loader=yaml.BaseLoader)["device"]
        found = re.fullmatch(r"([0-9.eE+]+)( @\S+)?", device[key])
        return float(found[1])
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return None


def bandwidth_of(path):
    return device_figure(path, "bandwidth")


def power(row, path):
    """The power limit of the row's card as a share of the machine file's: 1 if the file does not say."""
    watts = device_figure(path, "watts")
    return CARDS[row.gpu].watts / watts if watts else 1


def slower(row, path):
    """By how much the memory of the row's card is slower than that of the machine file: 1 if the file does not say."""
    bandwidth = bandwidth_of(path)
    return bandwidth / CARDS[row.gpu].bandwidth if bandwidth else 1


def notes(row, path):
    """What of the row's card the machine file does not say, and what is changed for it."""
    card, found = CARDS[row.gpu], []
    if bandwidth_of(path) is None:
        found.append(f"{path.name} gives no device.bandwidth: its kernels' times count for {row.gpu}")
    elif slower(row, path) != 1:
        found.append(f"{path.name} has {bandwidth_of(path) / 1e3:.3g} TB/s of memory, {row.gpu} "
                     f"{card.bandwidth / 1e3:.3g}: kernels' bytes count {slower(row, path):.3g} times")
    if device_figure(path, "watts") is None:
        found.append(f"{path.name} gives no device.watts: its products' times count for {row.gpu}")
    elif power(row, path) != 1:
        found.append(f"{path.name} is of {device_figure(path, 'watts'):.3g} W, {row.gpu} of {card.watts}: what-if "
                     f"device.power={power(row, path):.3g}x")
    return found
