# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a study: YAML with the deck, the keys that are swept, and how runs are started.

Values of deck keys stay the text that the study has: the program reads them, and finds their errors.
"""
import os
import re
from dataclasses import dataclass, field
from decimal import Decimal

import yaml

from study.errors import BAD_STUDY, Diagnostics, StudyError, nearest
from study.quote import VARIABLE

RANKS = "ranks"
ENVIRONMENT = "env."
DECK_KEY = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eEdD][+-]?[0-9]{1,4})?")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LOGICAL = {**dict.fromkeys(("true", "t", ".true.", ".t."), True), **dict.fromkeys(("false", "f", ".false.", ".f."), False)}
TOP_KEYS = ["study", "deck", "folder", "scaling", "repeats", "set", "environment", "sweep", "timeout_min", "slurm"]
SLURM_KEYS = ["template", "tasks_per_node", "at_once", "options"]
SCALINGS = ["strong", "weak"]
OUTPUTS = ["study.json", "runs.csv", "points.csv", "runs.parquet", "points.parquet", "ledger.jsonl", "lock"]  # written into its folder
SWEEP_REMEDY = "name a key and its values: {ranks: [1, 2]}"
MOST_RUNS = 10000  # chosen: a study beyond it is a mistake in a product


def meaning(key, text):
    """What two spellings of one value of a key share: numbers and logical values are compared as such, as the program
    reads them. Variables are texts."""
    if not key.startswith(ENVIRONMENT):
        if NUMBER.fullmatch(text):
            return "number", Decimal(text.lower().replace("d", "e"))
        if text.lower() in LOGICAL:
            return "logical", LOGICAL[text.lower()]
    return "text", text


@dataclass
class Slurm:
    """How jobs of Slurm are submitted."""
    template: str = "cpu"        # or gpu: which placement scripts/slurm/array.sbatch takes
    tasks_per_node: int = 0      # 0: all ranks on one node
    at_once: int = 0             # jobs of an array that run at the same time; 0: as Slurm likes
    options: list = field(default_factory=list)  # of sbatch


@dataclass
class Study:
    """A study that was read and checked. `products`: the sweep, a list of products, each a list of (key, values)."""
    path: str
    name: str = ""
    deck: str = ""
    folder: str = ""
    scaling: str = ""
    repeats: int = 1
    timeout_min: float = 0.0
    settings: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)
    products: list = field(default_factory=list)
    slurm: Slurm = field(default_factory=Slurm)

    def swept(self):
        """The swept keys in the order of the file, each once."""
        return list(dict.fromkeys(key for product in self.products for key, _ in product))


class Reader:
    """Walks the nodes of one study and adds an error for each that is wrong."""

    def __init__(self, path, text):
        self.path, self.errors, self.study = path, Diagnostics(path, text), Study(path)

    def mapping(self, node, what):
        """The (key node, value node) pairs of a mapping. Anything else, or a key given twice, is an error."""
        if not isinstance(node, yaml.MappingNode):
            self.errors.at(node, f"{what} is no mapping", "expected lines of the form 'key: value'")
            return []
        seen, pairs = set(), []
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.errors.at(key, f"a key of {what} is no word")
            elif key.value in seen:
                self.errors.at(key, f"'{key.value}' stands twice in {what}")
            else:
                seen.add(key.value)
                pairs.append((key, value))
        return pairs

    def scalar(self, node, what):
        """The text of a scalar, or None and an error."""
        if not isinstance(node, yaml.ScalarNode):
            self.errors.at(node, f"{what} has no single value")
        elif node.value == "" and node.style is None:
            self.errors.at(node, f"{what} has no value")
        elif any(ord(c) < 32 for c in node.value):
            self.errors.at(node, f"{what} has a control character in it")
        elif any(0xD800 <= ord(c) <= 0xDFFF for c in node.value):
            self.errors.at(node, f"{what} has half a character in it", "a surrogate, as \\ud83e: write the character itself")
        else:
            return node.value
        return None

    def number(self, node, what, low, kind=int):
        """A number of at least `low`, or `low` and an error."""
        text = self.scalar(node, what)
        try:
            value = kind(text) if text is not None and re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else None
        except ValueError:
            value = None
        if text is not None and (value is None or value < low):
            name = "an integer" if kind is int else "a number"
            self.errors.at(node, f"{what} = {text} is not {name} >= {low}")
        return low if value is None else value

    def one_of(self, node, what, names):
        """One of the names, or an empty text and an error."""
        text = self.scalar(node, what)
        if text is not None and text not in names:
            self.errors.at(node, f"unknown {what} '{text}'", nearest(text, names))
        return text or ""

    def sweep_key(self, key, swept):
        """Whether a key can be set, or with `swept` be swept; an error otherwise."""
        name = key.value
        if name.startswith("output."):
            self.errors.at(key, f"'{name}' is set by the study itself", "each run writes into a folder of its own")
        elif name == "checkpoint.dir":
            self.errors.at(key, "'checkpoint.dir' is set by the study itself",
                           "each run writes checkpoints into its own folder, so that none goes on from another's")
        elif name == RANKS:
            if swept:
                return True
            self.errors.at(key, "'ranks' is swept, not set", "put it into 'sweep', with one value if need be")
        elif name.startswith(ENVIRONMENT) and VARIABLE.fullmatch(name[len(ENVIRONMENT):]):
            if swept:
                return True
            self.errors.at(key, f"'{name}' is no key of a deck", "variables of all runs go into 'environment'")
        elif DECK_KEY.fullmatch(name):
            return True
        else:
            kinds = "ranks, env.NAME, or a key of the deck as group.key" if swept else "a key of the deck as group.key"
            self.errors.at(key, f"unknown key '{name}'", f"expected {kinds}")
        return False

    def values(self, key, node):
        """The values of a swept key as texts."""
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if not nodes:
            self.errors.at(node, f"{key.value} has an empty list")
        texts, same = [], {}
        for one in nodes:
            text = self.scalar(one, key.value)
            if text is None:
                continue
            if key.value == RANKS:
                text = str(self.number(one, RANKS, 1))
            first = same.setdefault(meaning(key.value, text), text)
            if first != text:
                self.errors.at(one, f"{key.value} = {text} stands twice", f"{first} is the same value")
            elif text in texts:
                self.errors.at(one, f"{key.value} = {text} stands twice")
            texts.append(text)
        return texts

    def product(self, node):
        """One product: swept keys with their values."""
        if isinstance(node, yaml.MappingNode) and not node.value:
            self.errors.at(node, "sweep has no key", SWEEP_REMEDY)
        return [(key.value, self.values(key, value)) for key, value in self.mapping(node, "sweep")
                if self.sweep_key(key, swept=True)]

    def read_slurm(self, node):
        slurm = self.study.slurm
        for key, value in self.mapping(node, "slurm"):
            if key.value == "template":
                slurm.template = self.one_of(value, "slurm.template", ["cpu", "gpu"])
            elif key.value in ("tasks_per_node", "at_once"):
                setattr(slurm, key.value, self.number(value, f"slurm.{key.value}", 1))
            elif key.value == "options":
                nodes = value.value if isinstance(value, yaml.SequenceNode) else [value]
                slurm.options = [text for text in (self.scalar(one, "slurm.options") for one in nodes) if text]
            else:
                self.errors.at(key, f"unknown key '{key.value}' in slurm", nearest(key.value, SLURM_KEYS))

    def read_key(self, key, value):
        study, name = self.study, key.value
        if name == "study":
            study.name = self.scalar(value, "study") or ""
            if study.name and not NAME.fullmatch(study.name):
                self.errors.at(value, f"'{study.name}' is no name", "letters, digits, '.', '_' and '-', at most 64")
        elif name in ("deck", "folder"):
            setattr(study, name, self.scalar(value, name) or "")
        elif name == "scaling":
            study.scaling = self.one_of(value, "scaling", SCALINGS)
        elif name == "repeats":
            study.repeats = self.number(value, "repeats", 1)
        elif name == "timeout_min":
            study.timeout_min = self.number(value, "timeout_min", 0, float)
        elif name == "set":
            for k, v in self.mapping(value, "set"):
                if self.sweep_key(k, swept=False) and (text := self.scalar(v, k.value)) is not None:
                    study.settings[k.value] = text
        elif name == "environment":
            for k, v in self.mapping(value, "environment"):
                if not VARIABLE.fullmatch(k.value):
                    self.errors.at(k, f"'{k.value}' is no name of a variable", "letters, digits and '_', no digit first")
                study.environment[k.value] = self.scalar(v, k.value) or ""
        elif name == "sweep":
            nodes = value.value if isinstance(value, yaml.SequenceNode) else [value]
            if not nodes:
                self.errors.at(value, "sweep has an empty list", SWEEP_REMEDY)
            study.products = [product for product in map(self.product, nodes) if product]
        elif name == "slurm":
            self.read_slurm(value)
        else:
            self.errors.at(key, f"unknown key '{name}' in the study", nearest(name, TOP_KEYS))

    def read(self, root):
        pairs = self.mapping(root, "the study")
        for key, value in pairs:
            self.read_key(key, value)
        given = {key.value: key for key, _ in pairs}
        study = self.study
        for name, why in (("deck", "the deck that all runs share"), ("sweep", "the keys whose values change")):
            if name not in given:
                self.errors.at(root, f"'{name}' is missing", why)
        if study.deck:
            study.deck = self.find_deck(given["deck"])
        if study.scaling and RANKS not in study.swept():
            self.errors.at(given["scaling"], f"scaling: {study.scaling} needs 'ranks' in the sweep")
        for name in set(study.settings) & set(study.swept()):
            self.errors.at(given["set"], f"'{name}' is set and swept", "leave it out of one of them")
        for name in {f"env.{name}" for name in study.environment} & set(study.swept()):
            self.errors.at(given["environment"], f"'{name}' is swept, and its variable is in environment", "leave it out of one of them")
        study.name = study.name or os.path.splitext(os.path.basename(self.path))[0]
        study.folder = study.folder or os.path.join("out", "studies", study.name)
        for name in OUTPUTS:
            out = os.path.join(study.folder, name)
            for path in filter(os.path.isfile, (self.path, study.deck)):
                if os.path.isfile(out) and os.path.samefile(out, path):
                    self.errors.at(given.get("folder", root), f"the study would replace '{path}' by its own {name}", "set folder to another one")
        self.errors.throw_if_any()
        return study

    def find_deck(self, key):
        """The deck as it is found from the working directory, then from the study's folder."""
        beside = os.path.join(os.path.dirname(self.path), self.study.deck)
        for path in (self.study.deck, beside):
            if os.path.isfile(path):
                return os.path.normpath(path)
        self.errors.at(key, f"deck: '{self.study.deck}' is no file", f"nor is '{beside}'")
        return self.study.deck


def read_study(path):
    """Reads and checks a study. Throws StudyError(BAD_STUDY) with all errors at once."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise StudyError(BAD_STUDY, f"{path}: error: cannot read the study: {reason}") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        diagnostics = Diagnostics(path, text)
        diagnostics.error(error.problem_mark or error.context_mark, 1, f"this is no YAML: {error.problem}")
        diagnostics.throw_if_any()
    except yaml.YAMLError as error:
        raise StudyError(BAD_STUDY, f"{path}: error: this is no YAML: {error}") from None
    if root is None:
        raise StudyError(BAD_STUDY, f"{path}: error: the study is empty; see docs/study.md")
    return Reader(path, text).read(root)
