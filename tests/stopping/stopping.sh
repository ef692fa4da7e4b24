#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
#
# stopping.sh CASE FOLDER
#
# How a run stops, as its users meet it: signals to ranks and launchers, steps, time, a second signal, a signal during
# start-up. SHARD8_PROGRAM, SHARD8_MPIEXEC (a command) and SHARD8_SOURCES say where things are. Each run is held
# against: its exit code, the report, summary.json, one line of metrics.jsonl for each step, no process that remains.
# Prints a line for each run, and all output of one that fails.
set -euo pipefail

case=$1 folder=$2
program=$SHARD8_PROGRAM
read -r -a launch <<<"$SHARD8_MPIEXEC"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$folder"
many=1000000
keeps=()  # options of env: signals that a run finds ignored

# Steps take about a millisecond; with long=..., so long that no test waits for one.
cat >deck.yaml <<DECK
model:     {arch: llama, hidden: 32, ffn: 64, layers: 2, heads: 2, vocab: 256, seq: 32}
precision: {compute: fp32}
optimizer: {lr: 3.0e-3, clip: 0}
data:      {kind: synthetic, batch: 4}
run:       {steps: $many, log_every: $many, timing_skip: 2}
verify:    {final_loss_max: 0.001}
DECK
long=(data.batch=4000000 data.micro_batch=4)

fail() {
  echo "stopping $case${job:+, $(basename "$job")}: $*" >&2
  if [[ -n ${job:-} ]]; then sed 's/^/    /' "$job/out" "$job/err" >&2 || true; fi
  pkill -KILL -f -- "$folder/deck.yaml" || true  # its steps are so long that it would take a core for hours
  exit 1
}

# wait_for SECONDS WHAT COMMAND...
wait_for() {
  local end=$((SECONDS + $1 * ${SHARD8_TEST_PATIENCE:-1})) what=$2
  shift 2
  until "$@" 2>/dev/null; do
    ((SECONDS < end)) || fail "waited in vain for $what"
    sleep 0.02
  done
}

# Processes of ranks write their numbers, by rank.
pid_of() { cat "$job/pid.$1"; }
lives() { [[ -e /proc/$1 && $(sed 's/.*) //' "/proc/$1/stat") != Z* ]]; }
gone() { ! lives "$1"; }
# A process whose handlers are installed: SIGUSR1 (10) is caught.
catches() {
  local mask
  mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status")
  ((16#${mask: -8} >> 9 & 1))
}
# A process that has taken the signals that were sent to it.
took() { ! grep -qE '^(SigPnd|ShdPnd):.*[1-9a-f]' "/proc/$1/status"; }
rank_catches() { catches "$(pid_of "$1")"; }
trains() { (($(wc -l <"$job/results/metrics.jsonl") > 3)); }

# start NAME HOW RANKS ARGUMENT...: starts a run in the background, sets started to its process. HOW: program (one rank
# without a launcher), mpiexec, or run (scripts/run).
start() {
  local name=$1 how=$2 ranks=$3
  shift 3
  job=$folder/$name
  mkdir -p "$job"
  export job
  local run=(run "$folder/deck.yaml" "mesh.shard=$ranks" "output.dir=$job/results" "$@")
  # An asynchronous command of a script starts with SIGINT ignored; `env` gives it back.
  case $how in
    program) env --default-signal "${keeps[@]}" "$here/rank.sh" "$program" "${run[@]}" >"$job/out" 2>"$job/err" & ;;
    mpiexec) env --default-signal "${keeps[@]}" "${launch[@]}" -n "$ranks" "$here/rank.sh" "$program" "${run[@]}" >"$job/out" 2>"$job/err" & ;;
    run) env --default-signal "${keeps[@]}" "$folder/tree/scripts/run" "${run[@]:1}" >"$job/out" 2>"$job/err" & ;;
  esac
  started=$!
}

# The run ends within 20 s with this code (a pattern), and no rank remains.
ends_with() {
  local wanted=$1 code=0 pid end=$((SECONDS + 20))
  # No process in the background counts the time: CTest would wait for it.
  while lives "$started" 2>/dev/null; do
    if ((SECONDS >= end)); then kill -KILL "$started"; fi
    sleep 0.02
  done
  wait "$started" || code=$?
  [[ $code =~ ^($wanted)$ ]] || fail "exit code $code instead of $wanted"
  for pid in "$job"/pid.*; do
    [[ -e $pid ]] || continue
    wait_for 5 "rank $pid" gone "$(cat "$pid")"
  done
}

says() { grep -qE -- "$2" "$job/$1" || fail "$1 does not say: $2"; }
once() { [[ $(grep -cE -- "$2" "$job/$1") == 1 ]] || fail "$1 does not say exactly once: $2"; }

# reported REASON [CHECKPOINT]: the report of a run that stopped, and its files; CHECKPOINT: true if it wrote one.
reported() {
  local reason=$1 checkpoint=${2:-false} steps last summary=$job/results/summary.json
  local saved="without a checkpoint"
  [[ $checkpoint == false ]] || saved="a checkpoint of this run is there"
  once out "^stopped by $reason before step [0-9]+ of $many; $saved"
  steps=$(sed -nE 's/^stopped by .* before step ([0-9]+) of .*/\1/p' "$job/out")
  once out '^final loss [0-9.]+'
  once out '^memory per rank'
  [[ $(sed '/^$/d' "$job/out" | tail -n 1) == 'VERIFICATION: NOT REACHED' ]] || fail "the last line is another one"
  if ((steps > 2)); then once out '^Figure of Merit'; else once out "no step was measured: all $steps were left out"; fi
  [[ $(wc -l <"$job/results/metrics.jsonl") == "$steps" ]] || fail "metrics.jsonl has not $steps lines"
  last=$(tail -n 1 "$job/results/metrics.jsonl")
  [[ $last == "{\"step\":$((steps - 1)),"*"}" ]] || fail "the last line of metrics.jsonl is $last"
  [[ $(head -c 1 "$summary")$(tail -n 1 "$summary") == '{}' ]] || fail "summary.json is no whole object"
  [[ $(sed -n '/^  "end": {/,/^  }/p' "$summary" | tr -d ' \n') == \
    "\"end\":{\"finished\":false,\"reason\":\"$reason\",\"next_step\":$steps,\"steps\":$many,\"checkpoint\":$checkpoint}," ]] ||
    fail "summary.json does not say how the run ended"
  says results/summary.json '^    "status": "not reached"'
  says results/timing.csv '^step,phase,part'
  echo "$(basename "$job"): stopped before step $steps, ${reason}"
}

# scripts/run as it is, on the program that was built.
make_tree() {
  mkdir -p tree/build/cpu
  cp -r "$SHARD8_SOURCES/scripts" tree/
  cat >tree/scripts/lib/build.bash <<'STUB'
require_preset() { :; }
configure() { :; }
compile() { :; }
build_dir() { printf '%s\n' "$repo/build/cpu"; }
STUB
  grep '^cached()' "$SHARD8_SOURCES/scripts/lib/build.bash" >>tree/scripts/lib/build.bash
  mkdir -p tree/build/cpu/bin
  cat >tree/build/cpu/bin/shard8 <<STUB
#!/usr/bin/env bash
[[ \$1 == run ]] || exec "$program" "\$@"
exec "$here/rank.sh" "$program" "\$@"
STUB
  chmod +x tree/build/cpu/bin/shard8
  printf 'MPIEXEC_EXECUTABLE:FILEPATH=%s\nMPIEXEC_PREFLAGS:STRING=%s\n' "${launch[0]}" "${launch[*]:1}" \
    >tree/build/cpu/CMakeCache.txt
}

# The signal to each place where it may come from.
signals() {
  local signal=$1
  start one_rank_of_1 program 1
  wait_for 20 "steps" trains
  kill -s "$signal" "$(pid_of 0)"
  ends_with 5
  reported "SIG$signal"

  start one_rank_of_2 mpiexec 2
  wait_for 20 "steps" trains
  kill -s "$signal" "$(pid_of 1)"
  ends_with 5
  reported "SIG$signal"

  start all_ranks mpiexec 2
  wait_for 20 "steps" trains
  kill -s "$signal" "$(pid_of 0)" "$(pid_of 1)"
  ends_with 5
  reported "SIG$signal"

  local passed_on=$signal
  if [[ $signal == HUP ]]; then
    passed_on=TERM  # MPICH's mpiexec dies of SIGHUP, so scripts/run does not send it
  else
    start mpiexec mpiexec 2
    wait_for 20 "steps" trains
    kill -s "$signal" "$started"
    ends_with 5
    # MPICH's mpiexec says something about SIGINT in between.
    sed -i '/^\[mpiexec@/d' "$job/out"
    reported "SIG$signal"
  fi

  make_tree
  start scripts_run run 2
  wait_for 20 "steps" trains
  kill -s "$signal" "$started"
  ends_with 5
  sed -i '/^\[mpiexec@/d' "$job/out"
  reported "SIG$passed_on"
}
case_term() { signals TERM; }
case_usr1() { signals USR1; }
case_int() { signals INT; }
case_hup() {
  signals HUP
  ! grep -qE ' (DEBUG|DIAG) ' "$folder"/*/out "$folder"/*/err || fail "UCX took the signal"
  # Under nohup it is ignored, although UCX installs a handler of its own.
  keeps=(--ignore-signal=HUP)
  start ignored mpiexec 2
  wait_for 20 "steps" trains
  kill -s HUP "$(pid_of 0)" "$(pid_of 1)" "$started"
  sleep 1
  kill -s TERM "$(pid_of 0)"
  ends_with 5
  sed -i '/^\[mpiexec@/d' "$job/out"
  reported SIGTERM
}

case_limits() {
  local ranks
  for ranks in 1 2; do
    start "stop_after_$ranks" mpiexec "$ranks" run.stop_after=7
    ends_with 75
    reported run.stop_after true
    once out '^stopped by run.stop_after before step 7 '
  done
  start fewer_than_skipped mpiexec 2 run.stop_after=1
  ends_with 75
  reported run.stop_after true

  # A signal stops a run that writes checkpoints with one of them, from which it goes on and stops again.
  start with_checkpoints mpiexec 2 checkpoint.dir=kept
  wait_for 20 "steps" trains
  kill -s TERM "$(pid_of 1)"
  ends_with 75
  reported SIGTERM true
  start goes_on mpiexec 2 checkpoint.dir=kept run.stop_after=3
  ends_with 75
  once out "^restart    from kept/step_[0-9]+, step [0-9]+ of $many"

  start time_limit mpiexec 2 run.time_limit_min=0.03 run.margin_s=0.1
  ends_with 5
  reported run.time_limit_min

  SLURM_JOB_END_TIME=$(($(date +%s) + 32)) start job_end mpiexec 2 run.time_limit_min=9 run.margin_s=30
  ends_with 5
  reported SLURM_JOB_END_TIME

  SLURM_JOB_END_TIME=tomorrow start no_time mpiexec 2
  ends_with 3
  once err "SLURM_JOB_END_TIME is 'tomorrow'"

  SLURM_JOB_END_TIME=1000000000 start over mpiexec 2 run.steps=4 verify.final_loss_max=0
  ends_with 0
  once err 'warning: SLURM_JOB_END_TIME is 1000000000, which is over'
  says results/summary.json '^    "finished": true,$'

  # Steps of a run that stopped are held against gold losses: those that are there are right.
  start gold mpiexec 2 "verify.gold=$folder/over/results/metrics.jsonl" verify.tolerance=0 run.steps=4 run.stop_after=2 \
    optimizer.decay_steps=4
  ends_with 75
  says out '^VERIFICATION: NOT REACHED$'
  sed 's/"loss":[0-9]/"loss":9/' over/results/metrics.jsonl >wrong.jsonl
  start wrong_gold mpiexec 2 "verify.gold=$folder/wrong.jsonl" verify.tolerance=0 run.steps=4 run.stop_after=2
  ends_with 6
  says out '^VERIFICATION: FAILED: loss .* of step 0 differs'
  says out '^stopped by run.stop_after'
}

# The process has taken a signal so long ago that another one is no repeat of the same request, which ends after 0.5 s.
later() {
  wait_for 20 "the signal" took "$1"
  sleep 1
}

# A second signal ends a run in the middle of a step.
case_second() {
  start one_rank program 1 "${long[@]}"
  wait_for 60 "the first step" test -e "$job/results/metrics.jsonl"
  sleep 0.2
  kill -TERM "$(pid_of 0)"
  later "$(pid_of 0)"
  kill -TERM "$(pid_of 0)"
  ends_with 5
  once err '^shard8: ended at once by a second signal, SIGTERM$'

  # Rank 0 hangs: it is stopped in the middle of a step. Rank 1 waits for it.
  start one_of_2 mpiexec 2
  wait_for 20 "steps" trains
  kill -STOP "$(pid_of 0)"
  kill -USR1 "$(pid_of 1)"
  later "$(pid_of 1)"
  kill -INT "$(pid_of 1)"
  ends_with 5
  once err '^shard8: rank 1: ended at once by a second signal, SIGINT$'
  [[ ! -e $job/results/summary.json ]] || fail "a run that did not end has a summary"

  # Ctrl-C twice.
  make_tree
  start scripts_run run 2
  wait_for 20 "steps" trains
  kill -STOP "$(pid_of 0)"
  kill -INT "$started"
  sleep 2  # scripts/run holds the first one back until the launcher listens
  later "$(pid_of 1)"
  kill -INT "$started"
  ends_with 5
  once err '^shard8: rank 1: ended at once by a second signal, SIGTERM$'

  # timeout sends the signal twice at once, to its child and to its group: one request. It passes a signal on in the way
  # in which it sends its own.
  launch=(timeout --preserve-status 1000 "${launch[@]}")
  start timeout mpiexec 2
  wait_for 20 "steps" trains
  kill -TERM "$started"
  ends_with 5
  reported SIGTERM
}

# A signal before the first step.
case_start() {
  export SHARD8_TEST_HOLD=1  # rank 1 is not started until there is a file `go`
  start first mpiexec 2
  wait_for 20 "the handlers" rank_catches 0
  kill -TERM "$(pid_of 0)"
  touch "$job/go"
  ends_with 5
  once err '^shard8: rank 0: stopped by SIGTERM before the first step$'
  [[ ! -e $job/results ]] || fail "a run that did not start made an output folder"

  start second mpiexec 2
  wait_for 20 "the handlers" rank_catches 0
  kill -TERM "$(pid_of 0)"
  later "$(pid_of 0)"
  kill -TERM "$(pid_of 0)"
  ends_with '1|5|9|13'  # MPICH's mpiexec kills rank 1, and may add its code or give that alone
  once err '^shard8: ended at once by a second signal, SIGTERM$'
  unset SHARD8_TEST_HOLD
}

"case_$case"
