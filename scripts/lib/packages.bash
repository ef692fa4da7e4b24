# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the build needs besides Kokkos: how to see it, and how to get it.

# name | how it is seen: cmd:PROGRAM or header:FILE | Debian packages | Spack spec
requirements() {
  cat <<'TABLE'
C++ compiler|cmd:g++|g++|gcc@12:
CMake 3.25|cmd:cmake|cmake|cmake@3.25:
Ninja|cmd:ninja|ninja-build|ninja
MPI compiler|cmd:mpicxx|libmpich-dev|mpich
MPI launcher|cmd:mpiexec|mpich|mpich
parallel HDF5|header:hdf5.h|libhdf5-mpich-dev|hdf5+mpi
yaml-cpp|header:yaml-cpp/yaml.h|libyaml-cpp-dev|yaml-cpp
BLAS|header:cblas.h|libopenblas-openmp-dev|openblas threads=openmp
CLI11|header:CLI/CLI.hpp|libcli11-dev|cli11
fmt|header:fmt/core.h|libfmt-dev|fmt
nlohmann-json|header:nlohmann/json.hpp|nlohmann-json3-dev|nlohmann-json
xxHash|header:xxhash.h|libxxhash-dev|xxhash
GoogleTest|header:gtest/gtest.h|libgtest-dev|googletest
GoogleMock|header:gmock/gmock.h|libgmock-dev|googletest
TABLE
}

# Helpful, not needed. Continuous integration runs the tests that need a Slurm (scripts/slurm/local-cluster), networks of
# their own (scripts/virtual-nodes) or a browser.
optional_packages=(ccache)
network_packages=(iproute2 util-linux)
slurm_packages=(slurm-wlm munge)
if [[ "${CI:-}" == true ]]; then
  optional_packages+=("${slurm_packages[@]}" "${network_packages[@]}")
  # tests/study/test_browser.py and tests/style/site/browser.py take the first of these programs that is installed.
  have "${SHARD8_BROWSER:-chromium}" || have chromium-browser || have google-chrome || optional_packages+=(chromium)
fi

# Those of the packages $@ that are not installed.
debian_missing() {
  # shellcheck disable=SC2016
  dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
    awk -v wanted="$*" '
      $2 == "installed" { have[$1] = 1 }
      END { n = split(wanted, w, " "); for (i = 1; i <= n; i++) if (!(w[i] in have)) print w[i] }' || true
}

# As root where there is apt: the distribution's packages, those missing only.
packages_install() {
  local wanted
  mapfile -t wanted < <(requirements | cut -d'|' -f3)
  packages_install_these "${wanted[@]}" "${optional_packages[@]}"
}

# Those of the packages $@ that are missing.
packages_install_these() {
  local missing
  mapfile -t missing < <(debian_missing "$@")
  if ((${#missing[@]} == 0)); then
    say "packages: all installed"
    return 0
  fi
  say "packages: installing ${missing[*]}"
  local log
  log="$(mktemp)"
  if ! { apt-get -q=2 update &&
    DEBIAN_FRONTEND=noninteractive apt-get -q=2 install -y --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "apt-get could not install the packages (its last words are above)" \
      "try: apt-get update && apt-get install ${missing[*]}"
  fi
  rm -f "$log"
}

# Folders where a header may lie, by what modules, Spack and distributions set.
include_folders() {
  local value root
  local IFS=:
  for value in ${CPATH:-} ${CPLUS_INCLUDE_PATH:-} ${C_INCLUDE_PATH:-}; do printf '%s\n' "$value"; done
  for root in ${CMAKE_PREFIX_PATH:-} ${HDF5_ROOT:-} ${HDF5_DIR:-} ${OPENBLAS_ROOT:-} ${MKLROOT:-} \
    /usr/local /usr; do
    for value in "$root/include" "$root"/include/{openblas,hdf5/mpich,hdf5/openmpi} \
      "$root"/include/*-linux-gnu{,/openblas-openmp,/openblas-pthread}; do
      printf '%s\n' "$value"
    done
  done
}

# As an ordinary user: uses what is there, and says what is not and how to get it.
packages_check() {
  local name how debian spack seen folder folders missing=() apt=() specs=()
  mapfile -t folders < <(include_folders)
  while IFS='|' read -r name how debian spack; do
    seen=""
    case "$how" in
      cmd:*) seen="$(command -v "${how#cmd:}" 2>/dev/null || true)" ;;
      header:*)
        for folder in "${folders[@]}"; do
          if [[ -f "$folder/${how#header:}" ]]; then
            seen="$folder/${how#header:}"
            break
          fi
        done
        ;;
    esac
    if [[ -n "$seen" ]]; then
      say "found: $name ($seen)"
    else
      missing+=("$name (${how#*:})")
      apt+=("$debian")
      specs+=("'$spack'")
    fi
  done < <(requirements)
  ((${#missing[@]} == 0)) && return 0
  die "missing: $(printf '%s, ' "${missing[@]}" | sed 's/, $//')" \
    "get them by one of:" \
    "  apt-get install ${apt[*]}        (Debian 12, as root)" \
    "  spack install ${specs[*]} && spack load ${specs[*]}" \
    "  module load ...                  (see: module avail 2>&1 | grep -iE 'mpich|hdf5|openblas|yaml|fmt')" \
    "then run again; if they lie elsewhere, list their prefixes in CMAKE_PREFIX_PATH (separated by ':')," \
    "or leave this look-round out with SHARD8_SETUP=off and let CMake look"
}
