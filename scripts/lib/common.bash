# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the scripts beside this folder.

say() { printf '[shard8] %s\n' "$*" >&2; }

# stop CODE MESSAGE [LINE...]
stop() {
  local code="$1" line
  printf '[shard8] error: %s\n' "$2" >&2
  shift 2
  for line in "$@"; do printf '[shard8]   %s\n' "$line" >&2; done
  exit "$code"
}
die() { stop 3 "$@"; }
bad_usage() { stop 2 "$@" "see $0 --help"; }

# The comment at the head of the script that runs.
usage() { sed -n '4,/^[^#]/s/^# \{0,1\}//p' "$0"; }

# help_if_asked ARGUMENT...: prints the usage and ends if one of them asks for it.
help_if_asked() {
  local argument
  for argument in "$@"; do
    case "$argument" in
      -h | --help) usage; exit 0 ;;
    esac
  done
}

have() { command -v "$1" >/dev/null 2>&1; }

# What is worth keeping between builds and clones.
cache_dir() {
  local base="${XDG_CACHE_HOME:-}"
  if [[ -z "$base" ]]; then
    [[ -n "${HOME:-}" ]] || die "neither XDG_CACHE_HOME nor HOME is set" "set one: export HOME=/your/home"
    base="$HOME/.cache"
  fi
  printf '%s/shard8\n' "$base"
}

# Cores in this process's affinity. nproc takes the variables of OpenMP for a limit; they are threads of one rank.
core_count() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || getconf _NPROCESSORS_ONLN; }

# Cores that this process may use: its affinity, and the quota of its control group.
cpu_count() {
  local cores quota period
  cores="$(core_count)"
  if read -r quota period 2>/dev/null </sys/fs/cgroup/cpu.max && [[ "$quota" != max ]]; then
    quota=$(((quota + period - 1) / period))
    ((quota < cores)) && cores="$quota"
  fi
  printf '%s\n' "$cores"
}

# count_of NUMBER NOUN: "1 core", "2 cores"
count_of() { if (($1 == 1)); then printf '1 %s\n' "$2"; else printf '%s %ss\n' "$1" "$2"; fi; }

# quoted WORD...: words as a shell reads them.
quoted() {
  local text="" word
  for word in "$@"; do
    # printf %q quotes more than it must; a line is easier to read and to copy without that.
    if [[ "$word" =~ ^[A-Za-z0-9_@%+=:,./-]+$ ]]; then text+=" $word"; else text+=" $(printf '%q' "$word")"; fi
  done
  printf '%s\n' "${text# }"
}

# default_program FOLDER PRESET: the program that belongs to the scripts in FOLDER/scripts: the installed one, or that of
# build/PRESET.
default_program() {
  local installed="$1/scripts/lib/installed.txt"
  if [[ -f "$installed" ]]; then
    printf '%s/%s\n' "$1" "$(sed -n 's/^program //p' "$installed")"
  else
    printf '%s/build/%s/bin/shard8\n' "$1" "$2"
  fi
}
