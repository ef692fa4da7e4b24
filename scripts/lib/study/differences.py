# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""What differs between subjects: keys of decks, machines, versions."""
from study.errors import counted
from study.subjects import PROJECTED

WHERE_FILES_LIE = ("output.", "checkpoint.dir")  # keys that differ between any two runs
UNKNOWN, UNSET = "not known", "-"


def flat(value, name=""):
    """{name: text} of all values below one."""
    if isinstance(value, dict):
        return {key: text for part, below in value.items()
                for key, text in flat(below, f"{name}.{part}" if name else part).items()}
    return {name: "-" if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)}


def deck_of(subject):
    """{key: value} of the first source, or what is known of a mesh of a sweep."""
    if not subject.sources:
        return {key: str(value) for key, value in subject.mesh.items() if "." in key}
    return {key: text for key, text in flat(subject.sources[0]["deck"]).items() if not key.startswith(WHERE_FILES_LIE)}


def machine_of(subject):
    if not subject.sources:
        return {key: str(value) for key, value in subject.mesh.items() if value and key in ("machine file", "what if")}
    summary = subject.sources[0]
    hosts, projected = summary.get("hosts") or [], summary.get("projected") or {}
    names = list(dict.fromkeys(hosts))
    shown = ", ".join(names[:4]) + (f" and {counted(len(names) - 4, 'more')}".removesuffix("s") if len(names) > 4 else "")
    out = {"machine file": projected.get("machine") and f"{projected['machine']} ({projected.get('file') or '-'})",
           "stack": projected.get("stack"), "what if": (projected.get("what_if") or {}).get("changes"),
           "hosts": None if projected else shown}
    out.update({f"card {key}" if key == "name" else key: value for key, value in (summary.get("gpu") or {}).items()})
    run = summary.get("run") or {}
    out.update({key.replace("_", " "): run.get(key) or None for key in ("device", "backend", "threads_per_rank", "waiting")})
    out.update({f"variable {key}": value for key, value in (summary.get("environment") or {}).items()})
    return {key: str(value) for key, value in out.items() if value not in (None, "")}


def version_of(subject):
    if not subject.sources:
        return {"shard8": str(subject.mesh["version"])} if subject.mesh.get("version") else {}
    version = subject.sources[0]["version"]
    return {key.replace("git_hash", "commit"): str(value) for key, value in version.items() if value is not None}


def differing(subjects, texts_of, known):
    """Rows [key, value of each subject] of keys whose values are not all the same. `known`: whether a subject has all keys;
    what it lacks is then no value, else not known, which is no difference."""
    every = [texts_of(one) for one in subjects]
    rows = []
    for key in dict.fromkeys(key for texts in every for key in texts):
        values = [texts.get(key, UNSET if known(one) else UNKNOWN) for texts, one in zip(every, subjects)]
        if len(set(values) - {UNKNOWN}) > 1:
            rows.append([key, *values])
    return rows


def differences(subjects):
    """(heads, rows) of the table; a row without values begins each group that has any."""
    whole, ran = lambda one: bool(one.sources), lambda one: one.kind != PROJECTED
    groups = [("Subject", differing(subjects, lambda one: {"kind": one.what(), "ranks": str(one.ranks)}, whole)),
              ("Deck", differing(subjects, deck_of, whole)), ("Machine", differing(subjects, machine_of, ran)),
              ("Version", differing(subjects, version_of, ran))]
    rows = []
    for name, found in groups:
        rows += [[name, *([""] * len(subjects))], *found] if found else []
    return ["", *(one.label() for one in subjects)], rows
