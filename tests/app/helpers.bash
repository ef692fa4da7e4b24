# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For scripts SCRIPT CASE FOLDER that run one case of the program's behaviour in a folder of its own: sourced with their
# arguments, it makes the folder anew and goes there.
case="$1" folder="$2"
sources="$SHARD8_SOURCES" program="$SHARD8_PROGRAM"
read -r -a launch <<<"$SHARD8_MPIEXEC"
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder" || exit 1

fail() {
  echo "$(basename "$0") $case: $*" >&2
  [[ -f out.txt ]] && sed 's/^/  out: /' out.txt >&2
  [[ -f err.txt ]] && sed 's/^/  err: /' err.txt >&2
  exit 1
}
# expect CODE COMMAND...: output in out.txt and err.txt
expect() {
  local wanted="$1" code=0
  shift
  "$@" >out.txt 2>err.txt </dev/null || code=$?
  [[ "$code" == "$wanted" ]] || fail "exit code $code instead of $wanted: $*"
  ! grep -q 'reason not to start is not registered' err.txt || fail "src/app/refusals.cpp lacks a refusal: $*"
}
says() { grep -qE -- "$2" "$1" || fail "$1 does not say: $2"; }
once() { [[ "$(grep -cE -- "$2" "$1")" == 1 ]] || fail "$1 does not say exactly once: $2"; }
run() { # RANKS ARGUMENT...
  local ranks="$1"
  shift
  "${launch[@]}" -n "$ranks" "$program" run "$@"
}
# reaches LAUNCHER WHAT COMMAND...: waits until the command succeeds, while the process that starts the ranks runs.
reaches() {
  local launcher="$1" what="$2" end=$((SECONDS + 60 * ${SHARD8_TEST_PATIENCE:-1}))
  shift 2
  until "$@"; do
    ((SECONDS < end)) || fail "waited in vain for $what"
    kill -0 "$launcher" 2>/dev/null || fail "the program ended before $what"
    sleep 0.02
  done
}
# signal_ranks LAUNCHER SIGNAL: to the ranks; what mpiexec makes of a signal is tested elsewhere (tests/stopping).
signal_ranks() {
  local proxy rank
  for proxy in $(pgrep -P "$1"); do
    for rank in $(pgrep -P "$proxy"); do kill -s "$2" "$rank" 2>/dev/null || true; done
  done
}
# A small model: deck.yaml, two ranks unless the first argument says otherwise.
write_deck() {
  head -c 20000 "$sources/inputs/text/mesh.md" >text.txt
  cat >deck.yaml <<DECK
model:     {arch: llama, hidden: 32, ffn: 64, layers: 2, heads: 2, vocab: 256, seq: 32}
mesh:      {shard: ${1:-2}}
precision: {compute: fp32}
optimizer: {lr: 3.0e-3}
data:      {kind: bytes, path: text.txt, batch: 4}
run:       {steps: 8, timing_skip: 2}
output:    {dir: results, replace: true}
DECK
}
