# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Python for scripts/study and scripts/plot: 3.11 or later with PyYAML and matplotlib. SHARD8_PYTHON, or python3, if it
# has both; else a private environment in the cache, filled by pip as this machine configures it. Training needs none.

# Raise when the packages change: the environment is then made anew.
python_recipe=1
python_packages=('PyYAML>=6' 'matplotlib>=3.6')

python_has_packages() { # without importing them, which takes a second
  "$1" -c 'import sys; from importlib.util import find_spec as f; sys.exit(not (f("yaml") and f("matplotlib")))' >/dev/null 2>&1
}
python_is_new() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# Sets python to the interpreter; makes the environment if need be.
provide_python() {
  local base="${SHARD8_PYTHON:-python3}" dir
  have "$base" || die "there is no $base" "install Python 3.11 or later (Debian: apt-get install python3 python3-venv)," \
    "or set SHARD8_PYTHON to one; training does not need it"
  python_is_new "$base" || die "$base is $("$base" --version 2>&1): 3.11 or later is needed" \
    "set SHARD8_PYTHON to a newer one; training does not need it"
  python="$base"
  if python_has_packages "$base"; then return 0; fi
  dir="$(cache_dir)/python"
  python="$dir/env/bin/python"
  mkdir -p "$dir"
  exec 8>"$dir/lock"
  if have flock; then flock 8; fi
  if [[ "$(cat "$dir/env/recipe" 2>/dev/null)" != "$python_recipe" ]] || ! python_has_packages "$python"; then
    make_python "$base" "$dir"
  fi
  exec 8>&-
}

make_python() { # INTERPRETER FOLDER
  local new="$2/env"
  say "Python: making a private environment in $new"
  rm -rf "$new"
  "$1" -m venv "$new" >"$2/log" 2>&1 || python_failed "$2/log" "$1 -m venv failed" \
    "Debian: apt-get install python3-venv; or set SHARD8_PYTHON to a Python with PyYAML and matplotlib"
  "$new/bin/python" -m pip install --quiet --disable-pip-version-check "${python_packages[@]}" >"$2/log" 2>&1 ||
    python_failed "$2/log" "pip cannot install ${python_packages[*]}" \
      "is there a network, or a mirror in pip's configuration (pip config list)?" \
      "or set SHARD8_PYTHON to a Python with PyYAML and matplotlib; training does not need them"
  printf '%s\n' "$python_recipe" >"$new/recipe"
}

python_failed() { # LOG MESSAGE LINE...
  tail -n 5 "$1" | sed 's/^/[shard8]     /' >&2
  die "${@:2}"
}
