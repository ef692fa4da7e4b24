# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Errors with a place, a value and a remedy, and the exit codes of scripts/study and scripts/plot."""
import difflib
import sys

DONE, BAD_STUDY, ENVIRONMENT, FAILED, STOPPED = 0, 2, 3, 5, 75


class StudyError(Exception):
    """An error for the user. `code` is the exit code."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Diagnostics:
    """Collects the errors of one YAML file, so that all of them are reported at once."""

    def __init__(self, name, text):
        self.name, self.lines, self.errors = name, text.split("\n"), []

    def error(self, mark, length, message, hint=""):
        """Adds an error at a mark of PyYAML, with the source line, a caret and a hint."""
        line, column = mark.line + 1, mark.column + 1
        source = self.lines[mark.line] if mark.line < len(self.lines) else ""
        width = max(1, min(length, len(source) - mark.column))
        text = (f"{self.name}:{line}:{column}: error: {message}\n"
                f"{line:5d} | {source}\n      | {' ' * mark.column}^{'~' * (width - 1)}")
        self.errors.append((line, column, text + (f"  {hint}" if hint else "")))

    def at(self, node, message, hint=""):
        """Adds an error at a node of PyYAML."""
        end = node.end_mark.column if node.end_mark.line == node.start_mark.line else node.start_mark.column + 1
        self.error(node.start_mark, end - node.start_mark.column, message, hint)

    def throw_if_any(self):
        """Throws StudyError(BAD_STUDY) with all errors in the order of their places."""
        if self.errors:
            raise StudyError(BAD_STUDY, "\n".join(text for _, _, text in sorted(self.errors)))


def nearest(word, names):
    """A hint: the name that a misspelt word probably means, or all names."""
    close = difflib.get_close_matches(word, names, n=1)
    return f"did you mean '{close[0]}'?" if close else "expected " + ", ".join(names)


def counted(number, word):
    """'1 run', '2 runs'."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def say(text):
    """Prints a line to standard error, as the other scripts do."""
    print(f"[shard8] {text}", file=sys.stderr, flush=True)
