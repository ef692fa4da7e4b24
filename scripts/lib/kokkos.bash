# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Kokkos 5: the site's, or a private copy of the binaries of Debian's unstable suite.
# The system's own libraries, its C library above all, are never touched.

# Raise when the way of unpacking changes: the copy is then made again from the packages kept.
kokkos_recipe=1

# Prints "PREFIX VERSION" of the first Kokkos 5 that the site provides; fails if none.
kokkos_of_site() {
  local roots=() root config version
  [[ -n "${Kokkos_ROOT:-}" ]] && roots+=("$Kokkos_ROOT")
  local IFS=:
  # shellcheck disable=SC2206
  roots+=(${CMAKE_PREFIX_PATH:-})
  unset IFS
  if have spack; then
    root="$(spack location -i kokkos 2>/dev/null || true)"
    [[ -n "$root" ]] && roots+=("$root")
  fi
  roots+=(/usr/local /usr)
  for root in "${roots[@]}"; do
    for config in "$root"/lib*/cmake/Kokkos/KokkosConfigVersion.cmake \
                  "$root"/lib/*/cmake/Kokkos/KokkosConfigVersion.cmake; do
      [[ -f "$config" ]] || continue
      version="$(sed -n 's/^set(PACKAGE_VERSION "\([0-9.]*\)").*/\1/p' "$config" | head -n 1)"
      if [[ "$version" == 5.* ]]; then
        printf '%s %s\n' "$root" "$version"
        return 0
      fi
    done
  done
  return 1
}

# Prints "URI KEYRING" of the machine's Debian mirror, from apt's own configuration: the
# entry of this release with the component main. KEYRING is empty if the entry names none.
debian_mirror() {
  local codename file
  # shellcheck source=/dev/null
  codename="$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")"
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -f "$file" ]] || continue
    awk -v codename="$codename" '
      function flush(   n, i, s) {
        n = split(field["suites"], s, " ")
        for (i = 1; i <= n; i++)
          if ((s[i] == codename || s[i] == "stable" || s[i] == "unstable" || s[i] == "sid" ||
               s[i] == "testing") && (" " field["components"] " ") ~ / main / &&
              (" " field["types"] " ") ~ / deb / && tolower(field["enabled"]) != "no") {
            split(field["uris"], u, " ")
            print u[1], (field["signed-by"] ~ /^\//) ? field["signed-by"] : ""
          }
        split("", field)
        name = ""
      }
      /^[ \t]*$/ { flush(); next }
      /^#/ { next }
      /^[^ \t:]+:/ {
        name = tolower(substr($0, 1, index($0, ":") - 1))
        value = substr($0, index($0, ":") + 1)
        gsub(/^[ \t]+|[ \t]+$/, "", value)
        field[name] = value
        next
      }
      name != "" { gsub(/^[ \t]+/, ""); field[name] = field[name] " " $0 }
      END { flush() }' "$file"
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ -f "$file" ]] || continue
    awk -v codename="$codename" '
      $1 != "deb" { next }
      {
        options = ""
        line = $0
        if (match(line, /\[[^]]*\]/)) {
          options = substr(line, RSTART + 1, RLENGTH - 2)
          line = substr(line, 1, RSTART - 1) " " substr(line, RSTART + RLENGTH)
        }
        n = split(line, f, " ")
        main = 0
        for (i = 4; i <= n; i++) if (f[i] == "main") main = 1
        if (!main || (f[3] != codename && f[3] != "stable" && f[3] != "unstable" &&
                      f[3] != "sid" && f[3] != "testing")) next
        keyring = ""
        if (match(options, /signed-by=[^ ]+/)) keyring = substr(options, RSTART + 10, RLENGTH - 10)
        print f[2], keyring
      }' "$file"
  done
}

# apt with a state of its own under $1, so that the system's lists and packages stay as they are.
private_apt() {
  local dir="$1" tool="$2"
  shift 2
  "$tool" -o "Dir::State=$dir/state" -o "Dir::State::status=$dir/state/status" \
    -o "Dir::Cache=$dir/cache" -o "Dir::Etc::sourcelist=$dir/sources.list" \
    -o "Dir::Etc::sourceparts=/dev/null" -o "Dir::Etc::preferences=/dev/null" \
    -o "Dir::Etc::preferencesparts=/dev/null" -o "APT::Sandbox::User=root" \
    -o "Acquire::Retries=3" -o "Acquire::Languages=none" "$@"
}

# Downloads the packages into $1, all or nothing.
kokkos_download() {
  local debs="$1" work mirror keyring library
  have apt-get && have dpkg-deb || return 1
  work="$(mktemp -d "$(dirname "$debs")/apt.XXXXXX")"
  mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/debs"
  : >"$work/state/status"
  local ok=1
  while read -r mirror keyring; do
    say "Kokkos: asking $mirror (this machine's apt mirror) for the unstable suite"
    printf 'deb%s %s unstable main\n' "${keyring:+ [signed-by=$keyring]}" "$mirror" >"$work/sources.list"
    if private_apt "$work" apt-get -q=2 update >"$work/log" 2>&1; then
      ok=0
      break
    fi
    sed 's/^/[shard8]     /' "$work/log" >&2
    if grep -q 'is expired' "$work/log"; then
      say "Kokkos: apt refuses that mirror's copy of the suite as too old, and so does this script"
      say "Kokkos: use a mirror that is up to date, or, to trust this one, set Acquire::Check-Valid-Until in apt's configuration"
    fi
  done < <(debian_mirror | awk '!seen[$0]++')
  if ((ok == 0)); then
    library="$(private_apt "$work" apt-cache show --no-all-versions libkokkos-dev 2>/dev/null |
      grep -oE 'libkokkos5\.[0-9]+' | head -n 1 || true)"
    if [[ -z "$library" ]]; then
      say "Kokkos: the unstable suite of this mirror has no libkokkos-dev 5"
      ok=1
    elif ! (cd "$work/debs" && private_apt "$work" apt-get -q=2 download libkokkos-dev "$library" \
      libc6 'libstdc++6' libgcc-s1 libgomp1 >"$work/log" 2>&1); then
      sed 's/^/[shard8]     /' "$work/log" >&2
      ok=1
    else
      rm -rf "$debs"
      mv "$work/debs" "$debs"
    fi
  fi
  rm -rf "$work"
  return "$ok"
}

# Unpacks the packages of $1 into the prefix $2 and mends what the package gets wrong.
kokkos_unpack() {
  local debs="$1" prefix="$2" new="$2.new" deb targets lib
  rm -rf "$new"
  mkdir -p "$new"
  for deb in "$debs"/*.deb; do dpkg-deb -x "$deb" "$new"; done
  targets="$(find "$new/usr/lib" -name KokkosTargets.cmake)"
  [[ -f "$targets" ]] || die "no KokkosTargets.cmake in $debs" "remove that folder and run scripts/setup again"
  # It names the include folder of an installed package, and archives that it does not contain.
  # shellcheck disable=SC2016
  sed -i 's|"/usr/include/kokkos"|"${_IMPORT_PREFIX}/include/kokkos"|' "$targets"
  grep -hoE 'lib/[^"]*/libkokkos[a-z]+\.a' "$(dirname "$targets")"/KokkosTargets-*.cmake | sort -u |
    while read -r lib; do
      [[ -e "$new/usr/$lib" ]] || ar crs "$new/usr/$lib"
    done
  rm -rf "${new:?}/usr/share"
  printf '%s\n' "$kokkos_recipe" >"$new/recipe"
  rm -rf "$prefix"
  mv "$new" "$prefix"
}

kokkos_version_in() {
  sed -n 's/^set(PACKAGE_VERSION "\([0-9.]*\)").*/\1/p' \
    "$1"/usr/lib/*/cmake/Kokkos/KokkosConfigVersion.cmake 2>/dev/null | head -n 1
}

# The private copy, made if need be; quick when it is there.
kokkos_private() {
  local dir prefix debs
  dir="$(cache_dir)/kokkos"
  prefix="$dir/prefix"
  debs="$dir/packages"
  mkdir -p "$dir"
  exec 9>"$dir/lock"
  have flock && flock 9
  if [[ "$(cat "$prefix/recipe" 2>/dev/null)" != "$kokkos_recipe" ]]; then
    if ! compgen -G "$debs/libkokkos-dev_*.deb" >/dev/null; then
      kokkos_download "$debs" || kokkos_missing
    else
      say "Kokkos: using the packages kept in $debs"
    fi
    kokkos_unpack "$debs" "$prefix"
    say "Kokkos: unpacked into $prefix"
  fi
  exec 9>&-
  say "Kokkos: $(kokkos_version_in "$prefix"), private copy, OpenMP and Serial, $prefix"
}

kokkos_missing() {
  die "no Kokkos 5 found, and no private copy could be fetched" \
    "looked at: Kokkos_ROOT, CMAKE_PREFIX_PATH, spack, /usr/local, /usr, and the unstable suite of the Debian mirror in /etc/apt" \
    "get it by one of:" \
    "  module load kokkos              (if your site has it; version 5)" \
    "  spack install kokkos@5: +openmp && spack load kokkos" \
    "  cmake -S kokkos -B build -DKokkos_ENABLE_OPENMP=ON -DCMAKE_INSTALL_PREFIX=\$HOME/kokkos && cmake --build build --target install" \
    "then run again with Kokkos_ROOT=/its/prefix"
}
