# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
# The shell in which check_commands types a page's commands, one after another: variables and the working folder stay from
# block to block. Its own variables begin with page_, block_ or this_.

# Programs of others that pages name: only their arguments are looked at.
page_outside=(apptainer AstraSim_Analytical_Congestion_Unaware benchpark cmake compute-sanitizer docker jube module pgrep python3
  reframe sbatch scancel scontrol sleep spack srun torchrun)
# Programs of the system that a checked block may run.
page_plain=(bash cat chmod cut dirname env head ln ls mkdir mktemp mv rm sed sort tail tr uname wc)

# has_command TEXT: whether a paragraph of a block begins with a command.
has_command() {
  local row before=""
  while IFS= read -r row; do
    if [[ -z "$before" ]] && is_command "$row"; then return 0; fi
    before="$row"
  done <<<"$1"
  return 1
}
# is_command TEXT: whether a line begins with a command.
is_command() {
  local first="${1%%[[:space:]]*}"
  [[ "$1" == '$ '* || "$first" =~ ^(\./|scripts/|build/|P/|[A-Za-z_][A-Za-z_0-9]*=) ]] && return
  [[ " shard8 mpiexec ctest cd cat echo eval export for if kill du ${page_outside[*]} " == *" $first "* ]]
}

# stand_in_names: the paths at which pages find programs and scripts.
stand_in_names() {
  (cd "$SHARD8_PAGE_SOURCES" && find scripts -type f -perm -u+x -not -path 'scripts/lib/*')
  printf '%s\n' {bin,P/bin,build/cpu/bin,build/cuda/bin}/shard8 bin/mpiexec bin/ctest hta_venv/bin/{pip,python} \
    "${page_outside[@]/#/outside/}"
  sed -nE 's,^build (tests/[a-z0-9_.]+):.*,build/cpu/\1\nbuild/cuda/\1,p' "$SHARD8_PAGE_BUILD/build.ninja"
}

# make_folder PAGE FOLDER: the folder, made anew, and the stand-ins in it.
make_folder() {
  page_name="$1" page_folder="$2" page_failures=0 page_commands=0 page_filter=without_figures
  page_mark="" page_deck=inputs/quickstart.yaml
  page_log="$page_folder.log" page_output="$page_folder.output"
  # Pages set variables of the first names themselves.
  export SHARD8_PAGE_MODE=run SHARD8_PAGE_FOLDER="$page_folder" SHARD8_PAGE_SOURCES="$SHARD8_SOURCES" \
    SHARD8_PAGE_PROGRAM="$SHARD8_PROGRAM" SHARD8_PAGE_MPIEXEC="$SHARD8_MPIEXEC" \
    SHARD8_PAGE_BUILD="${SHARD8_BUILD:-$SHARD8_SOURCES/build/cpu}"
  rm -rf "$page_folder"
  mkdir -p "$page_folder"/{bin,outside,plain,docs,scripts,build/{cpu,cuda}/{bin,tests},P/{bin,share/shard8}}
  ln -s "$SHARD8_PAGE_SOURCES"/{inputs,packages} "$page_folder"
  ln -s "$SHARD8_PAGE_SOURCES/inputs" "$page_folder/P/share/shard8/decks"
  ln -s "$SHARD8_PAGE_SOURCES/scripts" "$page_folder/P/share/shard8/scripts"
  # shellcheck disable=SC2046  # names without blanks
  ln -s $(type -P "${page_plain[@]}") "$page_folder/plain"
  local name
  while read -r name; do
    [[ -d "$page_folder/${name%/*}" ]] || mkdir -p "$page_folder/${name%/*}"
    printf '#!/usr/bin/env bash\nsource "%s/stand_in.bash"\n' "$here" >"$page_folder/$name"
    printf '%s\n' "$page_folder/$name"
  done < <(stand_in_names) | xargs -d '\n' chmod +x
  export SHARD8_PAGE_PATH="$PATH" PATH="$page_folder/bin:$page_folder/outside:$PATH"
  : >"$page_log"
  : >"$page_output"
  page_begin="$(mktemp)"
  cd "$page_folder" || exit
  name="${page_name##*/}"
  # shellcheck disable=SC2310
  if ! before_page "${name%.md}" >"$page_log" 2>&1; then
    echo "before_page ${name%.md}, of tests/docs/before.bash, fails:"
    cat "$page_log"
    exit 1
  fi
}

# complain LINE MESSAGE
complain() {
  printf '%s:%s: %s\n' "${page_name#"$SHARD8_PAGE_SOURCES"/}" "$1" "$2"
  page_failures=$((page_failures + 1))
}

# typed COMMAND: what a reader types for it, who puts something for names in capitals, and takes of "a|b" the first. A
# command that is checked has both, as "a,b".
typed() {
  local or='\1\2'
  [[ -z "$block_checked" ]] || or='\1\2,\4'
  sed -E -e 's/([^ ]) {2,}[^#].*$/\1/' -e 's/\[(--[^]]*|[A-Z]+|group[^]]*)\]/\1/g' -e 's/\bgroup\.key=value \.\.\./run.steps=20/' \
    -e ':or' -e "s/(^| )([A-Za-z0-9,]+)(\|)([A-Za-z0-9]+)/$or/" -e 't or' -e "s,\bDECK( \.\.\.)?( |$),$page_deck\2,g" \
    -e "s,\bSTUDY\.yaml\b,inputs/studies/twelve.yaml,g" \
    -e 's/\bGROUP\b/mesh/g; s/\bNAME\b/collective/g; s/\bSHELL\b/bash/g' -e 's/ \.\.\.$//' <<<"$1"
}

# type_block LINE TEXT: with block_checked (commands are not run) and block_wanted (their exit code; empty: as the command
# says, or 0).
type_block() {
  local this_number="$1" this_row this_command="" this_first="" this_shown="" this_shown_at="$1" this_part=""
  forget_output
  while IFS= read -r this_row; do
    if [[ -n "$this_command" ]]; then
      this_command+=$'\n'"$this_row"
    elif [[ "$this_row" == '$ '* ]]; then
      [[ -z "$this_first" ]] || shows "$this_shown_at" "$this_shown"
      forget_output
      this_shown="" this_shown_at="$((this_number + 1))" this_part=output
      this_command="${this_row:2}" this_first="$this_number"
    elif [[ -z "$this_row" ]]; then
      this_part=""
      this_shown+=$'\n'
    else
      if [[ -z "$this_part" ]]; then
        this_part=output
        if is_command "$this_row"; then
          [[ -z "$this_first" ]] || shows "$this_shown_at" "$this_shown"
          forget_output
          this_part=commands this_shown="" this_shown_at="$this_number"
        fi
      fi
      if [[ "$this_part" == commands ]]; then
        this_command="$this_row" this_first="$this_number"
        this_shown_at="$((this_number + 1))"
      else
        this_shown+="$this_row"$'\n'
      fi
    fi
    if [[ -n "$this_command" ]] && is_whole "$(typed "$this_command")"; then
      type_command "$this_first" "$this_command"
      this_command=""
    fi
    this_number=$((this_number + 1))
  done <<<"$2"
  [[ -z "$this_command" ]] || complain "$this_first" "the command has no end: bash -n refuses it"
  shows "$this_shown_at" "$this_shown"
}

forget_output() {
  page_filter=without_width
  : >"$page_output"
  rm -f "$page_folder.checked"
}

# is_whole TEXT: whether a shell would not wait for more lines.
is_whole() {
  [[ "$1" != *\\ ]] && [[ -z "$(bash -n <<<"$1" 2>&1)" ]]
}

# type_command LINE COMMAND
type_command() {
  local this_code=0 this_started="$SECONDS" this_text this_words="$2" this_at this_wanted="${block_wanted:-0}"
  this_text="$(typed "$2")"
  if [[ "$2" =~ exits\ with\ ([0-9]+) ]]; then this_wanted="${BASH_REMATCH[1]}"; fi
  [[ "$this_text" =~ (^|/)shard8\ (plan|check|deck|convert)\  ]] || page_filter=without_figures
  page_commands=$((page_commands + 1))
  this_at="$(wc -l <"$page_output")"
  if [[ -n "$block_checked" ]]; then
    type_checked "$this_text" || this_code="$?"
    : >"$page_folder.checked"
  else
    eval "$this_text" >>"$page_output" 2>&1 </dev/null || this_code="$?"
  fi
  printf '%s s\texit code %s\t%s\n' "$((SECONDS - this_started))" "$this_code" "${this_words//$'\n'/ }" >>"$page_log"
  if ((this_code != this_wanted)); then
    complain "$1" "exit code $this_code, not $this_wanted: ${this_words%%$'\n'*}"
    tail -n "+$((this_at + 1))" "$page_output" | tail -n 15 | sed 's/^/    /'
  fi
}

# type_checked TEXT: in a shell that finds stand-ins only. The working folder and exported variables are kept for the next one.
type_checked() {
  local this_code=0
  (
    export SHARD8_PAGE_MODE=check PATH="$page_folder/bin:$page_folder/outside:$page_folder/plain"
    # shellcheck disable=SC2317
    kill() { :; }
    # shellcheck disable=SC2317
    grep() { :; }
    trap 'pwd >"$page_folder.here"' EXIT
    eval "$1"
  ) >>"$page_output" 2>&1 </dev/null || this_code="$?"
  cd "$(cat "$page_folder.here")" || exit
  return "$this_code"
}

# shows LINE TEXT: the text is among the output of the last commands; with all figures if no machine changes them.
shows() {
  [[ -n "${2//[$'\n ']/}" && ! -e "$page_folder.checked" ]] || return 0
  local this_missing
  this_missing="$(first_missing "$page_filter" "$2" "$page_output")"
  [[ -n "$this_missing" ]] || return 0
  complain "$(($1 + ${this_missing%%:*} - 1))" "the output has no such line here: ${this_missing#*:}"
  "$page_filter" <"$page_output" | tail -n 40 | sed 's/^/    /'
}

end_session() {
  wait
  local this_changed
  this_changed="$(find "$SHARD8_PAGE_SOURCES/inputs" "$SHARD8_PAGE_SOURCES/packages" -newer "$page_begin" -type f | head -n 3)"
  rm -f "$page_begin" "$page_folder.checked" "$page_folder.here"
  [[ -z "$this_changed" ]] || complain 1 "the commands changed the sources: $this_changed"
  cat "$page_log"
  echo "$page_commands commands, $page_failures failures"
  ((page_failures == 0))
}
