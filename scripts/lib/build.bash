# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by build, test and run, which set repo: set-up, configure when needed, compile.
: "${repo:?}"

# Folder of a preset's build.
build_dir() { printf '%s/build/%s\n' "$repo" "$1"; }

# Presets that CMakePresets.json offers, one a line.
preset_names() { sed -n 's/^      "name": "\(.*\)",$/\1/p' "$repo/CMakePresets.json" | sed '/^base$/d' | sort -u; }

require_preset() {
  preset_names | grep -qxF -- "$1" ||
    bad_usage "unknown preset '$1'" "presets: $(preset_names | tr '\n' ' ')"
}

# cached PRESET NAME: a value in the cache of CMake; empty if there is none.
cached() { sed -n "s/^$2:[A-Z]*=//p" "$(build_dir "$1")/CMakeCache.txt" 2>/dev/null || true; }

# Whether a build folder is that of this tree: a copied tree has the folder of the tree from which it was copied, and
# CMake would build that one.
is_own_build() { [[ "$(cached "$1" CMAKE_HOME_DIRECTORY)" -ef "$repo" && "$(cached "$1" CMAKE_CACHEFILE_DIR)" -ef "$(build_dir "$1")" ]]; }

# Sets up, and configures unless this build folder was configured with the same settings from the same tree.
# Ninja itself runs CMake again when a CMakeLists.txt changes. Settings for CMake: SHARD8_CMAKE_ARGS.
configure() {
  local preset="$1" dir key site
  dir="$(build_dir "$preset")"
  local arguments=()
  # shellcheck disable=SC2206
  arguments=(${SHARD8_CMAKE_ARGS:-})
  "$repo/scripts/setup" "$preset"
  if [[ -z "${Kokkos_ROOT:-}" ]] && have spack; then
    # shellcheck source=scripts/lib/kokkos.bash
    source "$repo/scripts/lib/kokkos.bash"
    if site="$(kokkos_of_site)"; then arguments+=("-DKokkos_ROOT=${site%% *}"); fi
  fi
  key="$repo $(cksum <"$repo/CMakePresets.json") ${arguments[*]-} ${CC:-} ${CXX:-} ${Kokkos_ROOT:-} ${CUTLASS_ROOT:-} ${CMAKE_PREFIX_PATH:-} $(cache_dir)"
  if [[ -f "$dir/build.ninja" && "$(cat "$dir/configured_with" 2>/dev/null)" == "$key" ]] && is_own_build "$preset"; then
    return 0
  fi
  say "configuring $dir"
  rm -f "$dir/configured_with"
  if ! (cd "$repo" && cmake --fresh --preset "$preset" ${arguments[@]+"${arguments[@]}"} >"$repo/build/.configure.log" 2>&1); then
    cat "$repo/build/.configure.log" >&2
    die "CMake could not configure the preset '$preset' (its words are above)" \
      "settings for CMake go into SHARD8_CMAKE_ARGS, as in SHARD8_CMAKE_ARGS='-DSHARD8_MARCH=x86-64-v3' scripts/build"
  fi
  is_own_build "$preset" ||
    die "CMake configured '$(cached "$preset" CMAKE_CACHEFILE_DIR)' for '$(cached "$preset" CMAKE_HOME_DIRECTORY)', not '$dir' for '$repo'" \
      "remove $dir and build again"
  grep -E '^-- (MPI|HDF5|BLAS|Kokkos|CUTLASS):' "$repo/build/.configure.log" | sed 's/^--/[shard8]  /' >&2
  printf '%s\n' "$key" >"$dir/configured_with"
}

# compile PRESET [--target NAME...]
compile() {
  local preset="$1" dir
  shift
  dir="$(build_dir "$preset")"
  is_own_build "$preset" || die "'$dir' is not a build of '$repo'" "remove $dir and build again"
  say "building $dir"
  cmake --build "$dir" --parallel "${SHARD8_JOBS:-$(cpu_count)}" "$@" ||
    die "the build failed (see above)" "again, one job at a time and in full: cmake --build $dir --parallel 1 --verbose"
}
