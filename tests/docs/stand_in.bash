# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the files that stand in check_commands' folder for every program and script that pages name.
# SHARD8_PAGE_MODE=run: starts shard8, MPI's launcher and the scripts. Otherwise, and for what always takes long (builds,
# tests), it checks the command:
#
#   shard8 ...                  the command and its options are in its --help; `check` accepts the deck of `run` and `bench`
#                               with all changes, on the ranks of mpiexec
#   scripts/...                 the options are in its --help
#   ctest ...                   tests are selected (-N)
#   sbatch, srun, other tools   files of the sources that the command names are there
set -euo pipefail
name="${0#"$SHARD8_PAGE_FOLDER"/}" name="${name#outside/}" name="${name#bin/}"
refuse() { echo "stand_in: $name: $*" >&2; exit 64; }
mode="$SHARD8_PAGE_MODE"
if [[ "$mode" == check ]]; then export PATH="$SHARD8_PAGE_PATH"; fi
read -r -a launch <<<"$SHARD8_PAGE_MPIEXEC"

# in_help OPTION TEXT: refuses an option that the text lacks.
in_help() { grep -qE -- "(^|[^a-z-])${1%%=*}([^a-z-]|$)" <<<"$2" || refuse "there is no $1 in:"$'\n'"$2"; }
# options_in_help TEXT ARGUMENT...
options_in_help() {
  local text="$1" argument
  for argument in "${@:2}"; do
    [[ "$argument" != -?* ]] || in_help "$argument" "$text"
  done
}

# check_program COMMAND ARGUMENT...: the arguments of shard8. "a,b" is the page's "a|b".
check_program() {
  local command="$1" words word help argument value deck="" changes=()
  shift
  if [[ "$command" == -* ]]; then in_help "$command" "$("$SHARD8_PAGE_PROGRAM" --help)"; return; fi
  words=("$command")
  if [[ "$command" == bench || "$command" == ckpt ]]; then
    words=()
    for word in ${1//,/ }; do words+=("$command $word"); done
    shift
  fi
  for word in "${words[@]}"; do
    # shellcheck disable=SC2086  # two words
    help="$("$SHARD8_PAGE_PROGRAM" $word --help 2>&1)" || refuse "no command '$word':"$'\n'"$help"
    options_in_help "$help" "$@"
    for argument in "$@"; do # the values of "--to yaml|nml"
      [[ "$argument" == *,* && "$argument" != *=* ]] || continue
      for value in ${argument//,/ }; do in_help "$value" "$help"; done
    done
  done
  for argument in "$@"; do
    case "$argument" in
      -*) ;;
      *.yaml | *.yml | *.nml) deck="$argument" ;;
      *=*) changes+=("$argument") ;;
    esac
  done
  [[ -n "$deck" && "$command" =~ ^(run|bench|check|plan)$ ]] || return 0
  exec "$SHARD8_PAGE_PROGRAM" check "$deck" "${changes[@]}" output.replace=true ${ranks:+"--ranks=$ranks"}
}

# check_rest ARGUMENT...: what a launcher or a tool starts: a program or script of ours behind its own options, if any; files.
check_rest() {
  while (($# > 0)); do
    case "$1" in
      shard8 | */bin/shard8)
        if (($# > 1)) && [[ "$2" != +* ]]; then check_program "${@:2}"; return; fi ;;
      scripts/slurm/*.sbatch | P/share/shard8/scripts/slurm/*.sbatch)
        [[ -f "$SHARD8_PAGE_SOURCES/${1#P/share/shard8/}" ]] || refuse "there is no $1"
        check_job "${@:2}"; return ;;
      build/*/tests/*) [[ -e "$SHARD8_PAGE_FOLDER/$1" ]] || refuse "there is no test program $1"; return ;;
      scripts/* | packages/* | inputs/*) [[ -e "$SHARD8_PAGE_SOURCES/$1" ]] || refuse "there is no $1" ;;
    esac
    shift
  done
}

# check_job ARGUMENT...: a job's deck. A bad one ends the job, not sbatch; but keys and files must be there.
check_job() {
  local output code=0
  output="$(check_program run "$@" 2>&1)" || code="$?"
  if ((code != 0 && code != 2)) || [[ "$output" =~ unknown|"No such" ]]; then refuse "exit code $code:"$'\n'"$output"; fi
}

check_script() { # ARGUMENT...
  local help
  help="$("$SHARD8_PAGE_SOURCES/$name" --help)" || refuse "--help fails"
  case "$name" in
    scripts/test)
      if [[ "${1:-}" =~ ^[a-z] ]]; then shift; fi
      (($# == 0)) || check_tests "$@" ;;
    scripts/run) check_program run "$@" ;;
    *) options_in_help "$help" "$@"; check_rest "$@" ;;
  esac
}

has_python() { # the packages of scripts/plot, without installing them
  local PATH="$SHARD8_PAGE_PATH"
  source "$SHARD8_PAGE_SOURCES/scripts/lib/common.bash"
  source "$SHARD8_PAGE_SOURCES/scripts/lib/python.bash"
  python_has_packages "${SHARD8_PYTHON:-python3}" || python_has_packages "$(cache_dir)/python/env/bin/python"
}

check_tests() { # ARGUMENT... of ctest
  local found
  found="$(PATH="$SHARD8_PAGE_PATH" ctest --test-dir "$SHARD8_PAGE_BUILD" "$@" -N)" || refuse "$* -N fails:"$'\n'"$found"
  [[ ! "$found" =~ Tests:\ 0$ ]] || refuse "no test is selected by $*"
}

ranks="" # of mpiexec, for check_program
case "$name" in
  shard8 | */bin/shard8)
    [[ "$mode" == check ]] || exec "$SHARD8_PAGE_PROGRAM" "$@"
    check_program "$@" ;;
  mpiexec | srun)
    [[ "$mode" == check ]] || exec "${launch[@]}" "$@"
    for ((i = 1; i < $#; ++i)); do
      if [[ "${!i}" == -n ]]; then j=$((i + 1)) ranks="${!j}"; fi
    done
    check_rest "$@" ;;
  scripts/run)
    [[ "$mode" == check ]] || exec "${launch[@]}" -n 2 "$SHARD8_PAGE_PROGRAM" run "$@" mesh.shard=1 run.steps=20 \
      optimizer.warmup=5 verify.min_steps=1 verify.unigram_ratio_max=2
    check_program run "$@" ;;
  scripts/plot)
    if [[ "$mode" == run ]] && has_python; then PATH="$SHARD8_PAGE_PATH" exec "$SHARD8_PAGE_SOURCES/$name" "$@"; fi
    : >"$SHARD8_PAGE_FOLDER.checked"  # no output to compare
    check_script "$@" ;;
  scripts/*) check_script "$@" ;;
  ctest) [[ "$1" == --test-dir ]] && shift 2; check_tests "$@" ;;
  build/*/tests/*) ;;
  *)
    [[ "$mode" == check ]] || refuse "a test has no $name: put <!-- check: REASON --> before the block"
    check_rest "$@" ;;
esac
