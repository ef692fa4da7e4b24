# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# CUTLASS's headers, for builds with CUDA: the site's (CUTLASS_ROOT), or a private copy. The copy comes from a package of
# Python that carries CUTLASS 4.5.0 (BSD 3-Clause, the text is in every header), by pip as this machine configures it. Of
# the package only these headers are kept. They are optional: without them cuBLASLt computes all products.

cutlass_package=flashinfer-python==0.7.2.post1
cutlass_sha256=bfdc18b9e1e4d8d0730fe4343dc0e284cd0c160086de80f99888bc4867922d49
cutlass_in_package=flashinfer/data/cutlass/include/
# Raise when the way of unpacking changes: the copy is then made again.
cutlass_recipe="1 $cutlass_package"

# The private copy, made if need be; quick when it is there.
cutlass_private() {
  local dir work python="${SHARD8_PYTHON:-python3}"
  dir="$(cache_dir)/cutlass"
  mkdir -p "$dir"
  exec 7>"$dir/lock"
  if have flock; then flock 7; fi
  if [[ "$(cat "$dir/prefix/recipe" 2>/dev/null)" != "$cutlass_recipe" ]]; then
    say "CUTLASS: fetching $cutlass_package for its headers"
    work="$(mktemp -d "$dir/work.XXXXXX")"
    if cutlass_fetch "$python" "$work" >"$work/log" 2>&1; then
      rm -rf "$dir/prefix"
      mv "$work/prefix" "$dir/prefix"
    else
      tail -n 5 "$work/log" | sed 's/^/[shard8]     /' >&2
      say "CUTLASS: could not be fetched; without it cuBLASLt computes all products"
      say "CUTLASS: set CUTLASS_ROOT to a copy of 4.5 or newer, or leave it out with SHARD8_CMAKE_ARGS=-DSHARD8_CUTLASS=off"
    fi
    rm -rf "$work"
  fi
  exec 7>&-
  if [[ -f "$dir/prefix/recipe" ]]; then say "CUTLASS: private copy, $dir/prefix"; fi
}

# cutlass_fetch PYTHON FOLDER: makes FOLDER/prefix, with the headers in include.
cutlass_fetch() {
  local python="$1" work="$2"
  printf '%s --hash=sha256:%s\n' "$cutlass_package" "$cutlass_sha256" >"$work/requirements.txt" &&
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
      --requirement "$work/requirements.txt" --dest "$work" &&
    "$python" - "$work" "$cutlass_in_package" <<'PYTHON' &&
import pathlib, sys, zipfile

work, inside = pathlib.Path(sys.argv[1]), sys.argv[2]
(wheel,) = work.glob("*.whl")
with zipfile.ZipFile(wheel) as package:
    package.extractall(work / "all", [name for name in package.namelist() if name.startswith(inside)])
(work / "prefix").mkdir()
(work / "all" / inside).rename(work / "prefix" / "include")
PYTHON
    [[ -f "$work/prefix/include/cutlass/version.h" ]] &&
    printf '%s\n' "$cutlass_recipe" >"$work/prefix/recipe"
}
