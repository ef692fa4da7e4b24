#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
#
# slurm.sh CASE FOLDER
#
# Jobs under a real Slurm of this machine, of two virtual nodes, as their users meet it: the batch templates, their
# requeues and exit codes, and srun. SHARD8_PROGRAM, SHARD8_SOURCES and SHARD8_CLUSTER say where things are. Exit code 77
# says that Slurm cannot be had here; with CI=true that is a failure.
set -euo pipefail

case=$1 folder=$2
program=$SHARD8_PROGRAM
scripts=$SHARD8_SOURCES/scripts/slurm
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
folder=$PWD
eval "$("$scripts/local-cluster" env "$SHARD8_CLUSTER")"

# Runs end by a signal, or by another number of steps.
many=1000000
cat >deck.yaml <<DECK
model:     {arch: llama, hidden: 64, ffn: 128, layers: 2, heads: 2, vocab: 256, seq: 64}
mesh:      {shard: 4}
precision: {compute: fp32}
optimizer: {lr: 3.0e-3, decay_steps: $many}
data:      {kind: synthetic, batch: 16}
run:       {steps: $many, log_every: $many, timing_skip: 1}
DECK

skip() {
  echo "$*"
  [[ ${CI:-} != true ]] || exit 1
  exit 77
}
fail() {
  echo "slurm $case: $*" >&2
  tail -n 60 -- *.log >&2 || true
  exit 1
}
# wait_for SECONDS WHAT COMMAND...
wait_for() {
  local end=$((SECONDS + $1 * ${SHARD8_TEST_PATIENCE:-1})) what=$2
  shift 2
  until "$@" 2>/dev/null; do
    ((SECONDS < end)) || fail "waited in vain for $what"
    sleep 0.03
  done
}
says() { grep -qE -- "$2" "$1" || fail "$1 does not say: $2"; }
once() { [[ $(grep -cE -- "$2" "$1") == 1 ]] || fail "$1 does not say exactly once: $2"; }

# The nodes share their cores, of which the ranks of one node do not know: they would spin while ranks of the other node
# need the core. On one core they yield it.
one_core=--cpu-bind=map_cpu:0

# submit NAME TEMPLATE OPTION... -- ARGUMENT...: sets job. Its log is NAME.log, its results are in NAME.
two_nodes=(--nodes=2 --ntasks-per-node=2)
submit() {
  local name=$1 template=$2 options=()
  shift 2
  while [[ $1 != -- ]]; do options+=("$1") && shift; done
  shift
  job=$(sbatch --parsable --job-name="$name" --output="$name.log" "${options[@]}" "$scripts/$template" deck.yaml \
    "output.dir=$name" "$@")
}
field() { scontrol show job -o "$1" | sed -n "s/.* $2=\([^ ]*\).*/\1/p"; }
over() { [[ $(field "$1" JobState) =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)$ ]]; }
# ends_with JOB STATE CODE
ends_with() {
  local state code
  wait_for 100 "the end of job $1" over "$1"
  state=$(field "$1" JobState) code=$(field "$1" ExitCode)
  [[ "$state $code" == "$2 $3" ]] || fail "job $1 is $state with exit code $code instead of $2 with $3"
}

requeued() { (($(grep -c 'requeued, to go on' cut.log) >= $1)); }
# The steps of metrics.jsonl.
has_steps() { (($(wc -l <"$1/metrics.jsonl") >= $2)); }
# rank_of JOB RANK: its process.
rank_of() {
  local proc
  for proc in /proc/[0-9]*; do
    [[ $(cat "$proc/comm" 2>/dev/null) == shard8 ]] || continue
    grep -qzxF "SLURM_JOB_ID=$1" "$proc/environ" 2>/dev/null || continue
    if grep -qzxF "SLURM_PROCID=$2" "$proc/environ" 2>/dev/null; then
      echo "${proc#/proc/}"
      return 0
    fi
  done
  return 1
}
# stop_at NAME STEPS COMMAND...: runs the command, which sends a signal, when the run has done so many steps.
stop_at() {
  wait_for 60 "step $2 of $1" has_steps "$1" "$2"
  "${@:3}"
}

case_cluster.start() {
  "$scripts/local-cluster" start "$SHARD8_CLUSTER" || skip "Slurm cannot be started here: the reason is above"
  sinfo -N -l
}
case_cluster.stop() {
  "$scripts/local-cluster" stop "$SHARD8_CLUSTER"
  ! "$scripts/local-cluster" status "$SHARD8_CLUSTER" || fail "it still lives"
}

# The life of a cluster beside another one.
case_cluster.life() {
  local own=$SHARD8_CLUSTER-2 code=0
  "$scripts/local-cluster" start "$own"
  "$scripts/local-cluster" start "$own" 2>again.log
  once again.log 'runs already'
  "$scripts/local-cluster" status "$own" >status.log
  kill -KILL "$(sed -n 's/^slurmd-n1 .* process //p' status.log)"
  sleep 0.2
  "$scripts/local-cluster" status "$own" >status.log || code=$?
  [[ $code == 5 ]] || fail "status of a cluster of which a daemon is dead returned $code"
  once status.log '^slurmd-n1 *does not live'
  code=0
  "$scripts/local-cluster" start "$own" 2>refused.log || code=$?
  [[ $code == 3 ]] || fail "start beside daemons that live returned $code"
  once refused.log 'end them first: .*local-cluster stop '
  # Jobs, too, end with it.
  SLURM_CONF=$own/etc/slurm.conf sbatch --nodelist=n0 --output=job.log --wrap 'sleep 1000 & echo $! >sleeper; wait'
  wait_for 10 "a job" test -s sleeper
  "$scripts/local-cluster" stop "$own"
  [[ ! -e /proc/$(cat sleeper) || $(sed 's/.*) //' "/proc/$(cat sleeper)/stat") == Z* ]] || fail "a job outlives its cluster"
  code=0
  "$scripts/local-cluster" status "$own" >status.log || code=$?
  [[ $code == 1 ]] || fail "status of a cluster that was stopped returned $code"
  "$scripts/local-cluster" stop "$own"
  rm -r "$own"
  "$scripts/local-cluster" status "$SHARD8_CLUSTER" || fail "another cluster was stopped, too"
}

# Stopped twice, by a signal to the batch script and by one to the ranks, the job requeues itself and ends as if it had
# not been stopped. Before its last run the deck gets an end.
case_job.requeue() {
  local first second steps columns='s/,"step_s".*//'
  export SHARD8_LAUNCH_OPTIONS=$one_core
  # The summary has another name, and a requeued job goes on although its deck says that it starts anew.
  submit cut cpu.sbatch "${two_nodes[@]}" -- checkpoint.dir=kept checkpoint.restart=none output.summary=run.json
  stop_at cut 5 scancel --batch --signal=USR1 "$job"
  wait_for 30 "the requeue" requeued 1
  first=$(sed -n 's/.*requeued, to go on from step //p' cut.log)
  stop_at cut $((first + 4)) scancel --signal=TERM "$job"
  wait_for 30 "the second requeue" requeued 2
  second=$(sed -n 's/.*requeued, to go on from step //p' cut.log | tail -n 1)
  steps=$((second + 5))
  sed -i "s/steps: $many, log_every/steps: $steps, log_every/" deck.yaml
  srun --quiet "$one_core" --nodes=2 --ntasks=4 "$program" run deck.yaml output.dir=whole checkpoint.restart=none >whole.log 2>&1 ||
    fail "the whole run failed"
  ends_with "$job" COMPLETED 0:0
  [[ $(field "$job" Restarts) == 2 ]] || fail "it was not requeued twice"
  once cut.log 'SIGUSR1: the run is asked to stop'
  once cut.log "^stopped by SIGUSR1 before step $first of $many; a checkpoint of this run is there"
  once cut.log "^stopped by SIGTERM before step $second of $many; a checkpoint of this run is there"
  once cut.log "requeued 1 of at most 20 times, goes on from step $first\$"
  once cut.log "^restart    from kept/step_0*$first, step $first of $many"
  once cut.log "^restart    from kept/step_0*$second, step $second of $steps"
  # What does not depend on time.
  diff <(sed "$columns" cut/metrics.jsonl) <(sed "$columns" whole/metrics.jsonl) >&2 || fail "metrics differ"
  [[ $(wc -l <cut/metrics.jsonl) == "$steps" ]] || fail "metrics.jsonl has not $steps steps"
  says cut/metrics.jsonl '"step":0,"loss":[0-9.e-]+,"grad_norm":[0-9.e-]+,"lr":[0-9.e-]+,"tokens":1024,"step_s"'
}

# Stopped before the end of its time.
case_job.time_limit() {
  submit cut cpu.sbatch "${two_nodes[@]}" --time=1 --signal=B:USR1@30 -- checkpoint.dir=kept
  wait_for 150 "the requeue" requeued 1
  once cut.log 'SIGUSR1: the run is asked to stop'
  once cut.log '^stopped by SIGUSR1 before step [0-9]+ of .*; a checkpoint of this run is there'
  wait_for 60 "the second run" grep -q '^restart    from kept/' cut.log
  scancel "$job"
  wait_for 30 "the end of job $job" over "$job"
}

# Jobs that must not be requeued.
case_job.limits() {
  local once_more none still cancelled
  export SHARD8_LAUNCH_OPTIONS=$one_core
  MAX_REQUEUES=1 submit once cpu.sbatch "${two_nodes[@]}" -- checkpoint.dir=kept_once run.stop_after=3
  once_more=$job
  MAX_REQUEUES=0 submit none cpu.sbatch "${two_nodes[@]}" -- checkpoint.dir=kept_none run.stop_after=3
  none=$job
  cat >still <<'PROGRAM'
#!/usr/bin/env bash
# Always stops at the same step.
if [[ $1 == check ]]; then
  printf '%s\n' 'output.dir still results' 'output.summary still results/run.json'
  exit 0
fi
mkdir -p 'still results'
printf '{\n  "end": {\n    "finished": false,\n    "next_step": 7,\n    "checkpoint": true\n  }\n}\n' >'still results/new'
mv 'still results/new' 'still results/run.json'
exit 75
PROGRAM
  chmod +x still
  SHARD8_PROGRAM=$folder/still submit still cpu.sbatch --nodes=1 --ntasks-per-node=1 --
  still=$job
  ends_with "$none" FAILED 75:0
  says none.log 'not requeued: MAX_REQUEUES is 0; submit it again to go on from step 3$'
  # A job that its user cancels is over, whether or not srun kills the ranks before they have written a checkpoint.
  submit cancelled cpu.sbatch "${two_nodes[@]}" -- checkpoint.dir=kept_cancelled
  cancelled=$job
  wait_for 60 "steps of cancelled" has_steps cancelled 3
  scancel "$cancelled"
  wait_for 30 "the end of job $cancelled" over "$cancelled"
  sleep 1
  [[ "$(field "$cancelled" JobState) $(field "$cancelled" Restarts)" == 'CANCELLED 0' ]] || fail "a cancelled job went on"
  ! grep -q 'requeued, to go on' cancelled.log || fail "a cancelled job requeued itself"
  ends_with "$once_more" FAILED 75:0
  [[ $(field "$once_more" Restarts) == 1 ]] || fail "MAX_REQUEUES=1 requeued $(field "$once_more" Restarts) times"
  says once.log '^restart    from kept_once/step_0*3, step 3 of'
  says once.log 'not requeued: MAX_REQUEUES is 1; submit it again to go on from step 6$'
  ends_with "$still" FAILED 75:0
  [[ $(field "$still" Restarts) == 1 ]] || fail "a job that does not advance was requeued $(field "$still" Restarts) times"
  says still.log 'not requeued: its checkpoint has not advanced: it was at step 7, now at 7$'
}

# The job's exit code is the program's.
case_job.codes() {
  local bad wrong launched bound
  submit bad cpu.sbatch "${two_nodes[@]}" -- model.heads=3
  bad=$job
  submit wrong cpu.sbatch "${two_nodes[@]}" -- run.steps=3 verify.final_loss_max=0.001
  wrong=$job
  SHARD8_LAUNCH=mpiexec submit launched cpu.sbatch "${two_nodes[@]}" -- run.steps=3 verify.final_loss_max=0.001
  launched=$job
  # No device is touched: the program is one for hosts.
  submit gpus gpu.sbatch "${two_nodes[@]}" --gpus-per-node=2 --cpus-per-task=1 -- run.steps=3
  bound=$job
  ends_with "$bad" FAILED 2:0
  says bad.log 'model.heads = 3|heads'
  ends_with "$wrong" FAILED 6:0
  says wrong.log '^VERIFICATION: FAILED'
  for rank in 0 1 2 3; do once wrong.log "^rank $rank on n$((rank / 2)): cores [0-9,-]+\$"; done
  ends_with "$launched" FAILED 6:0
  for rank in 0 1 2 3; do once launched.log "^rank $rank on "; done
  ends_with "$bound" COMPLETED 0:0
  for rank in 0 1 2 3; do once gpus.log "^rank $rank on n$((rank / 2)): cores [0-9,-]+, GPUs 0,1\$"; done

  # mpiexec returns 0 for ranks that end last after a signal, were it not for app/process.cpp.
  MAX_REQUEUES=0 SHARD8_LAUNCH=mpiexec submit with cpu.sbatch "${two_nodes[@]}" -- checkpoint.dir=kept
  stop_at with 3 scancel --batch --signal=USR1 "$job"
  ends_with "$job" FAILED 75:0
  once with.log '^stopped by SIGUSR1 before step [0-9]+ of .*; a checkpoint of this run is there'
}

# start_study LOG OPTION...: starts the study in the background; sets pid.
start_study() {
  "${study[@]}" "${@:2}" >"$1" 2>&1 &
  pid=$!
}
# events EVENT: how often the ledger has it.
events() { grep -c "\"event\": \"$1\"" "$ledger" || true; }
# each_once EVENT COUNT [TEXT]: so many runs have the event, each once.
each_once() {
  local runs
  runs=$(grep "\"event\": \"$1\".*${3:-}" "$ledger" | sed 's/.*"run": "\([^"]*\)".*/\1/' | sort)
  [[ $(wc -l <<<"$runs") == "$2" && $(uniq -d <<<"$runs") == "" ]] || fail "not each of $2 runs has '$1' once: $runs"
}
has_ends() { (($(events end) >= $1)); }

# A study as arrays: one for each number of ranks. What is done is not submitted again. Its first call is killed right
# after sbatch took an array, before it knows the array's number.
case_study.array() {
  local study=("$SHARD8_SOURCES/scripts/study" study.yaml --slurm) ledger=arrays/ledger.jsonl pid real
  export SHARD8_LAUNCH_OPTIONS=$one_core
  cat >study.yaml <<STUDY
deck: deck.yaml
folder: arrays
set: {run.steps: 6, run.log_every: 3, mesh.shard: auto}
sweep: {ranks: [1, 2], data.seed: [1, 2]}
slurm: {at_once: 1}
STUDY
  "${study[@]}" --list >study.log 2>&1 || { code=$?; grep -q 'Python' study.log && skip "$(cat study.log)"; fail "exit code $code"; }
  real=$(command -v sbatch)
  mkdir killing
  printf '#!/bin/sh\n"%s" "$@"\nkill -KILL $PPID\n' "$real" >killing/sbatch
  chmod +x killing/sbatch
  PATH=$PWD/killing:$PATH "${study[@]}" >killed.log 2>&1 && fail "it was not killed"
  [[ $(events start) == 2 && $(events submitted) == 0 ]] || fail "it was killed too late"
  "${study[@]}" --wait >study.log 2>&1 || fail "exit code $?"
  once study.log '4 runs, [0-2] done, [0-2] in the queue, 2 to submit'
  once study.log 'submitted the array'
  each_once start 4
  each_once end 4 '"state": "done"'
  [[ $(grep -c ',done,' arrays/runs.csv) == 4 ]] || fail "not four runs are done"
  rm arrays/ranks-2_seed-1/results/summary.json
  "${study[@]}" --wait >again.log 2>&1 || fail "exit code $?"
  once again.log '4 runs, 3 done, 0 in the queue, 1 to submit'
  [[ $(events start) == 5 ]] || fail "not five starts"
}

# Between two jobs of an array none runs for a moment. The queue of the last call stays in queue.log.
runs_and_waits() {
  squeue --array --format='%.8F %.3K %.10T %.6D %R' >queue.log
  grep -q RUNNING queue.log && grep -q PENDING queue.log
}

# inputs/studies/twelve.yaml, killed while its jobs run and wait, then asked to stop, then resumed.
case_study.twelve() {
  local study=("$SHARD8_SOURCES/scripts/study" "$SHARD8_SOURCES/inputs/studies/twelve.yaml" --slurm --wait)
  local out=out/studies/twelve ledger=out/studies/twelve/ledger.jsonl pid code=0
  export SHARD8_LAUNCH_OPTIONS=--cpu-bind=none  # jobs share nodes, so no core is that of all ranks
  start_study killed.log
  wait_for 300 "three runs" has_ends 3
  wait_for 60 "a job that runs and one that waits" runs_and_waits
  kill -KILL "$pid"
  wait "$pid" || true
  cat queue.log
  start_study stopped.log
  wait_for 60 "the queue" grep -q 'in the queue' stopped.log
  once stopped.log '12 runs, [0-9]+ done, [1-9][0-9]* in the queue, 0 to submit'
  kill -TERM "$pid"
  wait "$pid" || code=$?
  [[ $code == 75 ]] || fail "exit code $code after SIGTERM"
  "${study[@]}" >ended.log 2>&1 || fail "exit code $?"
  once ended.log '12 runs, [0-9]+ done, [0-9]+ in the queue, 0 to submit'
  each_once start 12
  each_once submitted 12
  each_once end 12 '"state": "done"'
  [[ $(grep -c ',done,' "$out/runs.csv") == 12 && $(wc -l <"$out/points.csv") == 5 ]] || fail "tables are not whole"
  cat killed.log stopped.log ended.log "$ledger"
  "$SHARD8_SOURCES/scripts/plot" "$out" --svg svg --png png
  [[ -s $out/report.html && -s svg/scaling.svg && -s png/scaling.png ]] || fail "pictures are missing"
}

# Tasks that MPI does not connect.
case_srun.launch() {
  local code=0
  srun --mpi=none --kill-on-bad-exit=1 --nodes=2 --ntasks=4 "$program" run deck.yaml >none.log 2>&1 || code=$?
  [[ $code == 3 ]] || fail "exit code $code"
  once none.log '^shard8: '
  once none.log 'slurm started 4 tasks in this step, but mpi counts 1 rank: .* srun --mpi=pmi2 '
}

# under_srun NAME CODE COMMAND...: a run of two ranks ends with this code after the command, in which {srun}, {rank} and
# {step} stand for the processes of srun and of rank 1, and the step.
under_srun() {
  local name=$1 wanted=$2 code=0 srun job words=()
  shift 2
  local run=(run deck.yaml mesh.shard=2 "output.dir=$name")
  [[ $wanted != 75 ]] || run+=("checkpoint.dir=kept_$name")
  srun --kill-on-bad-exit=1 --job-name="$name" --nodes=2 --ntasks=2 "$program" "${run[@]}" >"$name.log" 2>&1 &
  srun=$!
  wait_for 60 "steps of $name" has_steps "$name" 3
  job=$(squeue -h -n "$name" -o %i)
  words=("${@//\{srun\}/$srun}")
  words=("${words[@]//\{rank\}/$(rank_of "$job" 1)}")
  words=("${words[@]//\{step\}/$job.0}")
  "${words[@]}"
  wait "$srun" || code=$?
  [[ $code =~ ^($wanted)$ ]] || fail "$name: exit code $code instead of $wanted"
}
case_srun.signals() {
  under_srun to_rank 75 kill -TERM '{rank}'
  once to_rank.log '^stopped by SIGTERM before step [0-9]+ of .*; a checkpoint of this run is there'
  under_srun to_rank_5 5 kill -TERM '{rank}'
  once to_rank_5.log '^stopped by SIGTERM before step [0-9]+ of .*; without a checkpoint'
  under_srun to_step 75 scancel --signal=TERM '{step}'
  once to_step.log '^stopped by SIGTERM before step'
  under_srun to_srun 75 kill -USR1 '{srun}'
  once to_srun.log '^stopped by SIGUSR1 before step'
  under_srun to_srun_5 5 kill -USR1 '{srun}'
  once to_srun_5.log '^stopped by SIGUSR1 before step'
  under_srun killed '13[07]|143' kill -TERM '{srun}'  # srun kills the ranks
}

# A file for each node. The program knows nodes by their kernels. So each virtual node gets an identity of its own, where
# the system permits that; elsewhere both are one node.
case_srun.nodes() {
  local id=/proc/sys/kernel/random/boot_id files='./node_n0000.h5 ./node_n0001.h5' as=() code=0
  echo first >id0
  echo second >id1
  # shellcheck disable=SC2016  # variables of the task
  as=(unshare --mount bash -c 'mount --bind "id$SLURM_NODEID" '"$id"' && exec "$@"' node)
  if [[ $(SLURM_NODEID=1 "${as[@]}" cat "$id" 2>/dev/null) != second ]]; then
    echo "nodes cannot be given identities here: both virtual nodes count as one"
    as=() files=./node_n0000.h5
  fi
  as+=("$program" run deck.yaml checkpoint.dir=kept checkpoint.files=node output.dir=out run.stop_after=2)
  srun --quiet "$one_core" --nodes=2 --ntasks=4 "${as[@]}" >first.log 2>&1 || code=$?
  [[ $code == 75 ]] || fail "exit code $code"
  [[ $(cd kept/step_00000002 && echo ./*.h5) == "$files" ]] || fail "files: $(ls kept/step_00000002)"
  code=0
  srun --quiet "$one_core" --nodes=2 --ntasks=4 "${as[@]}" >second.log 2>&1 || code=$?
  [[ $code == 75 ]] || fail "exit code $code of the second run"
  once second.log '^restart    from kept/step_00000002, step 2 of'
}

if [[ $case != cluster.* || $case == cluster.life ]]; then
  "$scripts/local-cluster" status "$SHARD8_CLUSTER" >cluster.log || skip "there is no Slurm: see slurm.cluster.start"
fi
"case_$case"
