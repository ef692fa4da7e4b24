# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Writes files as a whole."""
import contextlib
import os


def write_whole(path, content):
    """Writes bytes, or a text as UTF-8, by a new file and a rename: what was there stays if this fails. A device or a pipe
    is written to. Throws OSError with the path."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    special = os.path.exists(path) and not os.path.isfile(path)
    new = path if special else f"{os.path.realpath(path)}.new"
    try:
        with open(new, "wb") as file:
            file.write(data)
        if not special:
            os.replace(new, path if not os.path.islink(path) else os.path.realpath(path))
    except OSError as error:
        if not special:
            with contextlib.suppress(OSError):
                os.remove(new)
        raise OSError(error.errno, error.strerror, path) from None
