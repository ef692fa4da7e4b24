# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Command line of scripts/validate: python -m validate REPOSITORY ROWS.csv ..."""

import argparse
import pathlib
import shutil
import sys

from study.whole_file import write_whole

from . import Refused, efficiencies, gpus, projection, report, results, rows, stacks


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/validate", allow_abbrev=False)
    parser.add_argument("repository", help=argparse.SUPPRESS)
    parser.add_argument("rows")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--machine")
    parser.add_argument("--program")
    parser.add_argument("--efficiencies")
    parser.add_argument("--stacks")
    parser.add_argument("--write", action="store_true")
    return parser.parse_args(arguments)


def find_program(repository, given):
    if given:
        return given
    built = sorted(repository.glob("build/*/bin/shard8"), key=lambda path: path.stat().st_mtime)
    found = str(built[-1]) if built else shutil.which("shard8")
    if not found:
        raise Refused("there is no shard8: build it (scripts/build cpu) or name it with --program", 3)
    return found


def machine_of(repository, given, row_file):
    def machine(row):
        if row.gpu not in gpus.CARDS:
            raise Refused(f"{row_file}:{row.line}: row {row.id}: column gpu = '{row.gpu}': expected one of "
                          f"{', '.join(gpus.CARDS)}")
        path = pathlib.Path(given) if given else repository / "inputs" / "machines" / f"{gpus.CARDS[row.gpu].machine}.yaml"
        if not path.is_file():
            raise Refused(f"{path}: there is no such machine file: make it with shard8 calibrate, or name one with "
                          "--machine")
        return path

    return machine


def with_own(shipped, folder):
    """The stacks of --stacks, and those shipped ones that are of other rows."""
    if folder is None:
        return shipped
    own = stacks.read_all(folder)
    if not own:
        raise Refused(f"{folder}: there is no stack file NAME.yaml in it: give --stacks a folder with some")
    taken = {stack.rows for stack in own}
    return [stack for stack in shipped if stack.rows not in taken] + own


def run(options):
    repository = pathlib.Path(options.repository)
    if options.write and options.stacks is not None:
        raise Refused("--write with --stacks: docs/validation.md and the efficiencies are of shipped stacks: leave one out")
    table = rows.read(options.rows)
    all_stacks = with_own(stacks.read_all(repository / "inputs" / "stacks"), options.stacks)
    machine = machine_of(repository, options.machine, options.rows)
    project = projection.Projector(find_program(repository, options.program), options.rows, all_stacks, machine)
    errors = []
    for row in table:  # all errors of stacks, GPUs and decks before anything runs
        try:
            machine(row)
            project.files(row)
        except Refused as error:
            errors.append(str(error))
    if errors:
        raise Refused(list(dict.fromkeys(errors)))
    kept_file = pathlib.Path(options.efficiencies or repository / "inputs" / "stacks" / "efficiencies.json")
    only_read = options.efficiencies is not None and not options.write
    fitted, kept = efficiencies.fit_all(project, table, efficiencies.read(kept_file, must_exist=only_read))
    found = results.of_rows(project, table, fitted + kept)
    sys.stdout.write(report.page(found, fitted) if options.page else report.as_json(found) if options.json else
                     report.table(found, fitted, kept))
    if options.write:
        try:
            efficiencies.write(kept_file, fitted + kept)
            write_whole(repository / "docs" / "validation.md", report.page(found, fitted))
        except OSError as error:
            raise Refused(f"cannot write {error.filename}: {error.strerror}", 3) from error


def main():
    try:
        run(parse(sys.argv[1:]))
    except Refused as error:
        for line in str(error).split("\n"):
            print(f"[validate] {line}" if line else line, file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
