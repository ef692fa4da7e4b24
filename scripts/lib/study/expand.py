# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Expands a study into runs: the union of its products, each point as often as it is repeated."""
import hashlib
import itertools
import math
import re
from dataclasses import dataclass

from study.errors import BAD_STUDY, StudyError
from study.study_file import ENVIRONMENT, MOST_RUNS, RANKS, meaning

LONGEST_NAME = 120  # bytes of a folder's name; a file system takes 255


@dataclass(frozen=True)
class Run:
    """One run. `parameters`: swept keys with their values, in the order of the study. `ranks`: 0 if not swept."""
    name: str
    parameters: tuple
    overrides: tuple   # group.key=value, settings before swept keys
    environment: tuple  # (name, value)
    ranks: int
    repeat: int        # from 1

    def point(self):
        """What all repeats of the run share."""
        return self.parameters

    def line(self):
        """The study's line of this run, as it is kept beside its results."""
        return {"name": self.name, "parameters": [list(p) for p in self.parameters], "overrides": list(self.overrides),
                "environment": [list(e) for e in self.environment], "ranks": self.ranks, "repeat": self.repeat}


def short_names(keys):
    """key -> the last word of it, or the whole key where two end alike."""
    last = {key: key.split(".", 1)[-1] for key in keys}
    return {key: word if list(last.values()).count(word) == 1 else key for key, word in last.items()}


def digest(text):
    """The first digits of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def varying(every):
    """The keys that do not have the same value in all points."""
    keys = dict.fromkeys(key for parameters in every for key, _ in parameters)
    return [key for key in keys if len({dict(parameters).get(key) for parameters in every}) > 1]


def file_name(parameters, names):
    """The name of a point's folder, of the keys in `names`: 'ranks-4_tensor-2'."""
    plain = "_".join(f"{names[key]}-{value}" for key, value in parameters if key in names) or "run"
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", plain)
    if name != plain or len(name) > LONGEST_NAME:  # other texts could give the same name
        name = f"{name[:LONGEST_NAME]}_{digest(repr(parameters))}"
    return name


def points(study):
    """The points of all products in the order of the study, each once."""
    count = sum(math.prod(len(values) for _, values in product) for product in study.products)
    if count * study.repeats > MOST_RUNS:
        raise StudyError(BAD_STUDY, f"{study.path}: error: {count} points x {study.repeats} repeats are too many: "
                                    f"at most {MOST_RUNS} runs")
    seen = {}
    for product in study.products:
        keys = [key for key, _ in product]
        for values in itertools.product(*(values for _, values in product)):
            parameters = tuple(zip(keys, values))
            seen.setdefault(frozenset((key, meaning(key, value)) for key, value in parameters), parameters)
    return list(seen.values())


def make_run(study, parameters, folder, repeat):
    keys = {**study.settings, **{k: v for k, v in parameters if k != RANKS and not k.startswith(ENVIRONMENT)}}
    environment = {**study.environment,
                   **{k[len(ENVIRONMENT):]: v for k, v in parameters if k.startswith(ENVIRONMENT)}}
    name = folder + (f"_r{repeat}" if study.repeats > 1 else "")
    return Run(name, parameters, tuple(f"{k}={v}" for k, v in keys.items()), tuple(environment.items()),
               int(dict(parameters).get(RANKS, 0)), repeat)


def expand(study):
    """All runs. First every point once, then every point a second time: a study that is stopped has whole rounds."""
    every = points(study)
    names = short_names(varying(every))
    folders = [file_name(parameters, names) for parameters in every]
    folders = [f"{name}_{digest(repr(parameters))}" if folders.count(name) > 1 else name
               for name, parameters in zip(folders, every)]
    return [make_run(study, parameters, folder, repeat)
            for repeat in range(1, study.repeats + 1) for parameters, folder in zip(every, folders)]
