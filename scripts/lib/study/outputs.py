# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Outputs that would replace inputs."""
import os

from study.errors import BAD_STUDY, StudyError

PICTURES = (".html", ".svg", ".png")  # what scripts/plot writes itself, also into the folder of a run


def refuse_inputs(outputs, files, folders):
    """Throws StudyError(BAD_STUDY) for an output that is one of the files that are read, also by a link, or another file that lies
    in one of the folders of runs and studies and is no picture."""
    files = [path for path in files if os.path.exists(path)]
    for out in outputs:
        if not os.path.isfile(out):
            continue
        for path in files:
            if os.path.samefile(out, path):
                raise StudyError(BAD_STUDY, f"scripts/plot: error: cannot write '{out}': it is '{path}', which is read; name another "
                                            "place with -o, --svg or --png")
        whole = os.path.realpath(out)
        for folder in folders:
            if whole.startswith(os.path.join(os.path.realpath(folder), "")) and not whole.endswith(PICTURES):
                raise StudyError(BAD_STUDY, f"scripts/plot: error: cannot write '{out}': it is a file of the run or study '{folder}'; name "
                                            "another place with -o, --svg or --png")
