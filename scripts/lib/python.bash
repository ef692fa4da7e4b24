# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Python 3.11 or later for scripts/study, scripts/plot and scripts/docs: SHARD8_PYTHON, or python3. Packages that it does not
# have come into private environments in the cache, by pip as this machine configures it. Training needs none.

# Raise when the packages change: the environment is then made anew.
python_recipe=1
python_packages=('PyYAML>=6' 'matplotlib>=3.6')

# python_has INTERPRETER MODULE...: whether it would find them. To import them takes a second.
python_has() {
  "$1" -c 'import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, sys.argv[1:])))' "${@:2}" \
    >/dev/null 2>&1
}
python_is_new() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# Sets python to the interpreter, before an environment is looked for.
find_python() {
  python="${SHARD8_PYTHON:-python3}"
  have "$python" || die "there is no $python" "install Python 3.11 or later (Debian: apt-get install python3 python3-venv)," \
    "or set SHARD8_PYTHON to one; training does not need it"
  python_is_new "$python" || die "$python is $("$python" --version 2>&1): 3.11 or later is needed" \
    "set SHARD8_PYTHON to a newer one; training does not need it"
}

# Sets python to an interpreter with PyYAML and matplotlib: the one that is found if it has both, else an environment's.
provide_python() {
  find_python
  if python_has "$python" yaml matplotlib; then return 0; fi
  provide_environment python "$python_recipe" "yaml matplotlib" "set SHARD8_PYTHON to a Python with PyYAML and matplotlib" \
    "${python_packages[@]}"
}

# Sets python to an environment's interpreter with MkDocs and Material, in the versions of scripts/lib/site/requirements.txt.
provide_site_python() {
  local list
  list="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/site/requirements.txt"
  find_python
  provide_environment site "$(cksum <"$list")" "mkdocs material" "read the pages in docs/ as they are" \
    --no-deps --requirement "$list"
}

# provide_environment NAME RECIPE MODULES OTHERWISE ARGUMENT...: sets python to the interpreter of the environment NAME. Unless
# the environment is of this recipe and finds the modules, it is made anew, with what `pip install ARGUMENT...` installs.
# OTHERWISE: what to do where that fails.
provide_environment() {
  local name="$1" recipe="$2" modules="$3" otherwise="$4" base="$python" dir
  shift 4
  dir="$(cache_dir)/$name"
  python="$dir/env/bin/python"
  mkdir -p "$dir"
  exec 8>"$dir/lock"
  if have flock; then flock 8; fi
  # shellcheck disable=SC2086
  if [[ "$(cat "$dir/env/recipe" 2>/dev/null)" != "$recipe" ]] || ! python_has "$python" $modules; then
    say "Python: making a private environment in $dir/env"
    rm -rf "$dir/env"
    "$base" -m venv "$dir/env" >"$dir/log" 2>&1 || python_failed "$dir/log" "$base -m venv failed" \
      "Debian: apt-get install python3-venv; or $otherwise"
    "$python" -m pip install --quiet --disable-pip-version-check "$@" >"$dir/log" 2>&1 ||
      python_failed "$dir/log" "pip cannot install $*" \
        "is there a network, or a mirror in pip's configuration (pip config list)?" "or $otherwise; training needs no Python"
    printf '%s\n' "$recipe" >"$dir/env/recipe"
  fi
  exec 8>&-
}

python_failed() { # LOG MESSAGE LINE...
  tail -n 5 "$1" | sed 's/^/[shard8]     /' >&2
  die "${@:2}"
}
