# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash

# The project's files below the current folder, one a line: what git tracks or would,
# or, in an unpacked archive, all but the builds.
project_files() {
  if [[ -e .git ]] && command -v git >/dev/null; then
    git -c safe.directory='*' ls-files --cached --others --exclude-standard | while read -r file; do
      [[ -f "$file" ]] && printf '%s\n' "$file"
    done
  else
    find . -type f -not -path './build/*' -not -path './.git/*' | sed 's|^\./||'
  fi | LC_ALL=C sort
}
