# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Texts inside other languages: one function for each. Every script that writes one of them does so by these.

shell(words)        words of a command line, or of a file that a shell sources
assignment(n, v)    a variable of a shell
html(text)          text or the value of an attribute, of HTML and SVG
json_text(value)    a value of JSON
slurm(path)         a path for options of sbatch in which Slurm replaces %j and others, such as --output
"""
import json
import re
import shlex
from html import escape

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
CONTROL = {c: "\ufffd" for c in [*range(9), 11, 12, *range(14, 32), 127]}  # characters that XML does not allow


def shell(words):
    """Words as one line of a shell, which reads each of them as it was."""
    return shlex.join(map(str, words))


def assignment(name, value):
    """NAME=VALUE for a shell. Throws ValueError for a name that is none: no quotes make one of it."""
    if not VARIABLE.fullmatch(name):
        raise ValueError(f"'{name}' is no name of a variable")
    return f"{name}={shlex.quote(value)}"


def html(text):
    """Text for HTML, SVG or one of their attributes."""
    sound = str(text).encode("utf-8", "replace").decode("utf-8")  # no halves of characters
    return escape(sound.translate(CONTROL), quote=True)


def json_text(value, **options):
    """A value as JSON of ASCII, without NaN and infinity, which JSON does not have: they become null."""
    return json.dumps(finite(value), allow_nan=False, **options)


def finite(value):
    """The value with None in place of numbers that are not finite."""
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def slurm(path):
    """A path for --output and the like, before Slurm's own %j are added. Throws ValueError for a path with a backslash,
    which switches replacement off, or with a newline."""
    if any(c in path for c in "\\\n"):
        raise ValueError(f"Slurm cannot write to the path {path!r}: it has a backslash or a newline in it")
    return path.replace("%", "%%")
