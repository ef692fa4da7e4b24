#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
#
# virtual_nodes.sh CASE FOLDER
#
# Jobs under scripts/virtual-nodes. SHARD8_PROGRAM, SHARD8_SOURCES and SHARD8_MPIEXEC say where things are,
# SHARD8_PRELOAD is what ranks have in their environment so that they yield their cores. Exit code 77 says that this
# machine allows no namespaces; with CI=true that is a failure.
set -euo pipefail

case=$1 folder=$2
script=$SHARD8_SOURCES/scripts/virtual-nodes
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"

fail() {
  echo "virtual_nodes $case: $*" >&2
  tail -n 40 -- *.log >&2 || true
  exit 1
}
if [[ $case != arguments ]] && ! "$script" 1 true 2>probe.log; then
  cat probe.log
  [[ ${CI:-} != true ]] || exit 1
  exit 77
fi

many=1000000
cat >deck.yaml <<DECK
model:      {arch: llama, hidden: 64, ffn: 128, layers: 2, heads: 2, vocab: 256, seq: 64}
mesh:       {shard: auto}
precision:  {compute: fp32}
optimizer:  {lr: 3.0e-3, decay_steps: 100}
data:       {kind: synthetic, batch: 16}
checkpoint: {every: 4, keep: 9}
run:        {steps: 12, log_every: 1, timing_skip: 1, hang_limit_s: 5}
DECK
# nodes LOG OPTION... -- ARGUMENT...: a run of the deck; its exit code is in `code`.
nodes() {
  local log=$1 options=() code_of=0
  shift
  while [[ $1 != -- ]]; do options+=("$1") && shift; done
  shift
  "$script" "${options[@]}" env ${SHARD8_PRELOAD:+"$SHARD8_PRELOAD"} "$SHARD8_PROGRAM" run deck.yaml "$@" >"$log" 2>&1 || code_of=$?
  code=$code_of
}
says() { grep -qE -- "$2" "$1" || fail "$1 does not say: $2"; }
is() { [[ $code == "$1" ]] || fail "$2 ended with $code instead of $1"; }
process_of() { sed -n "s/.*[ ]$2 \([0-9]*\).*/\1/p" "$1"; }
wait_for() { # SECONDS WHAT COMMAND...
  local end=$((SECONDS + $1 * ${SHARD8_TEST_PATIENCE:-1})) what=$2
  shift 2
  until "$@" 2>/dev/null; do
    ((SECONDS < end)) || fail "waited in vain for $what"
    sleep 0.05
  done
}
has_steps() { (($(wc -l <"$1/metrics.jsonl") >= $2)); }
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([0-9.e+-]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }
# equal A B: the losses of two runs are those of the same steps, and agree to 2e-6.
equal() {
  paste <(losses "$1") <(losses "$2") | awk -v a="$1" -v b="$2" '
    { d = ($2 - $4) / $4; if (d < 0) d = -d; if ($1 != $3 || d > 2e-6) { print a, "and", b, "differ:", $0; bad = 1 } }
    END { if (NR != 12) { print a, "has", NR, "losses"; bad = 1 } exit bad }' || fail "losses of $1 and $2"
}
# What a job leaves on the machine: processes in other network namespaces whose parent's folder is this one.
own=$(readlink /proc/self/ns/net)
leftovers() {
  local proc
  for proc in /proc/[0-9]*; do
    [[ $(readlink "$proc/ns/net" 2>/dev/null || echo "$own") != "$own" && $(readlink "$proc/cwd" 2>/dev/null) == "$PWD" ]] &&
      echo "${proc#/proc/}: $(tr '\0' ' ' 2>/dev/null <"$proc/cmdline")"
  done
  return 0
}
nothing_left() { [[ -z $(leftovers) ]]; }

# sleepers SECONDS COUNT: so many ranks sleep for so long.
sleepers() { (($(leftovers | grep -c ": sleep $1 \$" || true) == $2)); }

# refused CODE TEXT ARGUMENT...
refused() {
  local expected=$1 text=$2 code=0
  shift 2
  "$script" "$@" >refused.log 2>&1 </dev/null || code=$?
  [[ $code == "$expected" ]] || fail "'$*' ended with $code instead of $expected"
  says refused.log "$text"
}
case_arguments() {
  refused 2 'no number of nodes'
  refused 2 "the number of nodes is '0': it must be a number from 1 to 64" 0 true
  refused 2 "the number of nodes is '65'" 65 true
  refused 2 "the number of nodes is 'two'" two true
  refused 2 "unknown option '--speed'" 2 --speed 1 true
  refused 2 '[-]-rate needs a value' 2 --rate
  refused 2 "[-]-ranks-per-node is '0'" 2 --ranks-per-node 0 true
  refused 2 'no program to run' 2 --rate 1gbit
  for rate in '' nan -nan inf -1gbit -100 0 0gbit fast 1 999 0.9kbit 1gbits '1 gbit' 50% 0x10 1e9 101tbit 100tibit 13tbps 99999999999999999gbit; do
    refused 2 "[-]-rate is '$rate': it must be " 2 --rate "$rate" true
    says refused.log 'such as 500mbit or 1gbit'
  done
  for rate in 1000 1kbit 1Gbit .5gbit 1.5mbit 1.kbit 100Mibit 8KiBps 12tbps 100tbit; do
    refused 2 'no program to run' 2 --rate "$rate"
  done
  for latency in '' nan -1 1.5 1ms 010 10000001; do refused 2 "[-]-latency is '$latency': it must be" 2 --latency "$latency" true; done
  refused 3 "cannot run 'no-such-program'" 2 no-such-program
  refused 0 'usage: scripts/virtual-nodes N' --help
  SHARD8_MPIEXEC=no-launcher refused 3 "no launcher 'no-launcher'" 2 true
  SHARD8_MPIEXEC=true refused 3 "'true' is not the launcher of MPICH" 2 true
  if (($(id -u) == 0)); then
    chmod 777 "$folder"
    code=0
    setpriv --reuid 65534 --clear-groups bash "$script" 2 true >refused.log 2>&1 || code=$?
    # Where others may not read the sources, bash cannot start.
    grep -q 'Permission denied' refused.log || { is 3 "a user" && says refused.log 'only root may make network namespaces'; }
  else
    refused 3 'only root may make network namespaces' 2 true
  fi
  if "$script" 1 true 2>/dev/null; then
    for rate in 1000 1Gbit .5gbit 100Mibit 8KiBps 100tbit; do refused 7 "links of $rate" 1 --rate "$rate" bash -c 'exit 7'; done
    refused 3 "this is already a virtual node, 'node1': nodes cannot be made on a node" 1 "$script" 2 true
    refused 7 'nodes with 1 rank each' 2 bash -c 'exit 7'
  fi
}

# Two nodes, a stop, four nodes, and one: the losses are those of one node.
case_restart() {
  nodes one.log 1 --timeout 50 -- output.dir=one
  is 0 "the run on one node"
  nodes two.log 2 --rate 1gbit --timeout 50 -- output.dir=two run.stop_after=4
  is 75 "the run that stops"
  says two.log '^ranks      2, 1 of them on node1'
  nodes four.log 4 --rate 1gbit --timeout 50 -- output.dir=two run.stop_after=4
  is 75 "the run on four nodes"
  says four.log '^restart .*step 4 of 12, written on the mesh 1 x 2 x 1'
  nodes last.log 1 --timeout 50 -- output.dir=two
  is 0 "the last run"
  says last.log '^restart .*step 8 of 12, written on the mesh 1 x 4 x 1'
  equal one two
  # Ranks of one node share memory, others do not.
  nodes shared.log 2 --ranks-per-node 2 --timeout 50 -- output.dir=shared
  is 0 "the run with two ranks a node"
  says shared.log '^ranks      4, 2 of them on node1'
  equal one shared
}

# begin LOG: a job that does not end by itself, in the background, when it has trained some steps: `job`.
begin() {
  "$script" 2 --timeout 50 env ${SHARD8_PRELOAD:+"$SHARD8_PRELOAD"} "$SHARD8_PROGRAM" run deck.yaml output.dir=run \
    run.steps=$many checkpoint.every=200 >"$1" 2>&1 &
  job=$!
  wait_for 30 "steps" has_steps run 5
  wait_for 30 "a checkpoint" eval 'compgen -G "run/checkpoints/step_*/manifest.json" >manifests'
}
# ended LOG CODE SECONDS
is_over() { [[ ! -e /proc/$job || $(sed 's/.*) //' "/proc/$job/stat") == Z* ]]; }
ended() {
  wait_for "$3" "the end of $1" is_over
  code=0
  wait "$job" || code=$?
  is "$2" "$1"
}
again() {
  local step
  step=$(find run/checkpoints -maxdepth 1 -name 'step_*' | sort | tail -n 1)
  nodes again.log 1 --timeout 50 -- output.dir=again checkpoint.restart="$step" run.steps=$((10#${step##*_} + 5)) optimizer.decay_steps=100
  is 0 "the restart"
  says again.log "^restart .*$step"
}
case_kill() {
  begin kill.log
  kill -KILL "$(process_of kill.log node2)"
  ended kill.log 5 10
  says kill.log 'error: node2 died before the job ended'
  wait_for 5 "the end of all processes" nothing_left
  again
}
case_unplug() {
  begin unplug.log
  nsenter -t "$(process_of unplug.log node2)" -n ip link set eth0 down
  ended unplug.log 5 15
  says unplug.log 'shard8: rank [01]: on node[12]: .* has waited 5 s for (rank [01] of the group|other ranks).*a link is down \(run.hang_limit_s allows 5 s\)'
  again
}

# Signals to the script stop the run with a checkpoint; a job that takes too long ends.
case_signals() {
  begin signals.log
  kill -TERM "$job"
  ended signals.log 75 20
  says signals.log 'stopped by SIGTERM'
  code=0
  "$script" 2 --timeout 1 sleep 100 >timeout.log 2>&1 || code=$?
  is 124 "the job that takes too long"
  says timeout.log 'stopped after 1 s'
  wait_for 5 "the end of all processes" nothing_left
}

# However the script ends, nothing is left; another one beside it goes on.
case_leftovers() {
  local first second namespaces
  namespaces=$(ip netns list 2>/dev/null | wc -l)
  "$script" 3 --rate 1gbit sleep 60 >first.log 2>&1 &
  first=$!
  "$script" 3 --rate 1gbit sleep 8 >second.log 2>&1 &
  second=$!
  wait_for 10 "the first job" sleepers 60 3
  wait_for 5 "the second job" sleepers 8 3
  kill -KILL $first
  wait_for 5 "the end of the first" sleepers 60 0
  sleepers 8 3 || fail "the second ended, too"
  wait $second || fail "the second failed"
  wait_for 5 "the end of all processes" nothing_left
  [[ $(ip netns list 2>/dev/null | wc -l) == "$namespaces" ]] || fail "a network namespace has a name"
  ! ip -o link | grep -E 'eth0@|data[0-9]|control[0-9]' | grep -q 'link-netns' || fail "an interface is left"
}

# Jobs on four nodes end with 0, although MPI_Finalize of MPICH 4.0 often does not return there.
case_finalize() {
  local i
  for i in 1 2 3 4 5 6; do
    nodes "$i.log" 4 --timeout 20 -- "output.dir=$i" run.steps=2 checkpoint.every=0
    is 0 "run $i"
    says "$i.log" 'VERIFICATION: NOT CONFIGURED'
  done
}

"case_$case"
