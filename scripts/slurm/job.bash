# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by cpu.sbatch, gpu.sbatch and array.sbatch, which set template, their name, SHARD8_SOURCES, preset and placement, options of srun:
# runs the deck "$@", passes signals on, and requeues the job or ends it with the program's exit code.
: "${SHARD8_SOURCES:?}" "${template:?}" "${preset:?}" "${placement:?}"
# shellcheck source=scripts/lib/common.bash
source "$SHARD8_SOURCES/scripts/lib/common.bash"
# In place of that of common.bash: $0 is Slurm's copy.
bad_usage() { stop 2 "$@" "see $SHARD8_SOURCES/scripts/slurm/$template --help"; }
help_if_asked "${1:-}"
SHARD8_PROGRAM="${SHARD8_PROGRAM:-$(default_program "$SHARD8_SOURCES" "$preset")}"

[[ -n "${SLURM_JOB_ID:-}" ]] || bad_usage "this is a batch script: submit it with sbatch"
(($# > 0)) || bad_usage "no deck: sbatch [options of sbatch] scripts/slurm/$template DECK [group.key=value ...]"
[[ -x "$SHARD8_PROGRAM" ]] || die "there is no program '$SHARD8_PROGRAM'" "build it with scripts/build, or set SHARD8_PROGRAM"
launcher="${SHARD8_LAUNCH:-srun}"
[[ "$launcher" == srun || "$launcher" == mpiexec ]] || bad_usage "SHARD8_LAUNCH is '$launcher': it must be srun or mpiexec"
max_requeues="${MAX_REQUEUES:-20}"
[[ "$max_requeues" =~ ^(0|[1-9][0-9]*)$ ]] || bad_usage "MAX_REQUEUES is '$max_requeues': it must be a number"
requeues="${SLURM_RESTART_COUNT:-0}"

# Slurm sets SLURM_NTASKS only where the number of tasks was asked for as such.
tasks="${SLURM_NTASKS:-}"
if [[ -z "$tasks" && -n "${SLURM_NTASKS_PER_NODE:-}" ]]; then
  tasks=$((SLURM_NTASKS_PER_NODE * ${SLURM_JOB_NUM_NODES:-${SLURM_NNODES:-1}}))
fi
export SLURM_NTASKS="${tasks:-1}"

# A bad deck or another number of ranks ends the job here, with the program's words and code.
"$SHARD8_PROGRAM" check "--ranks=$SLURM_NTASKS" "$@" >/dev/null
# The program says where the run writes.
files="$("$SHARD8_PROGRAM" check "--ranks=$SLURM_NTASKS" --files "$@")"
file_of() { # KEY
  local path
  path="$(sed -n "s/^$1 //p" <<<"$files")"
  [[ -n "$path" ]] || die "'$SHARD8_PROGRAM check --files' does not say $1" "use the program of these scripts"
  printf '%s\n' "$path"
}
output="$(file_of 'output\.dir')"
summary="$(file_of 'output\.summary')"

# The step at which this job's last checkpoint was written by a run that stopped. It outlives a requeue in this file.
memory="$output/slurm_job.txt"
remembered=""
if [[ -f "$memory" ]]; then remembered="$(sed -n "s/^job $SLURM_JOB_ID stopped before step //p" "$memory")"; fi

# Every rank says where it runs, and becomes the program.
# shellcheck disable=SC2016  # the rank's variables
show='cores="$(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)"
printf "rank %s on %s: cores %s%s\n" "${PMI_RANK:-${PMIX_RANK:-${SLURM_PROCID:-?}}}" "${SLURMD_NODENAME:-$HOSTNAME}" "$cores" \
  "${CUDA_VISIBLE_DEVICES:+, GPUs $CUDA_VISIBLE_DEVICES}"
exec "$@"'
cores="${SLURM_CPUS_PER_TASK:-1}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cores}" OMP_PROC_BIND="${OMP_PROC_BIND:-false}"
read -r -a options <<<"${SHARD8_LAUNCH_OPTIONS:-}"
case "$launcher" in
  srun) launch=(srun "--mpi=${SHARD8_MPI:-pmi2}" --kill-on-bad-exit=1 "--cpus-per-task=$cores" "${placement[@]}") ;;
  mpiexec)
    # mpiexec starts one process a node by srun, which would bind it and with it all ranks to the cores of one task.
    export SLURM_CPU_BIND=none
    launch=(mpiexec -n "$SLURM_NTASKS" -bind-to "core:$cores")
    ;;
esac
launch+=(${options[@]+"${options[@]}"})

say "job $SLURM_JOB_ID on ${SLURM_JOB_NODELIST:-${SLURM_NODELIST:-unknown nodes}}, $SLURM_NTASKS tasks of $cores cores," \
  "requeued $requeues of at most $max_requeues times${remembered:+, goes on from step $remembered}"
say "$(quoted "${launch[@]}" "$SHARD8_PROGRAM" run "$@")"

# A signal to this script goes to the launcher as SIGUSR1, which both launchers pass on to every rank: after SIGTERM
# srun kills them.
step="" signals=0 signalled=0
job_state() { scontrol show job -o "$SLURM_JOB_ID" | sed -n 's/.* JobState=\([A-Z_]*\).*/\1/p'; }
# shellcheck disable=SC2317  # called by traps
forward() { # SIGNAL
  signals=$((signals + 1))
  # When Slurm ends the job, it signals the ranks itself.
  if [[ "$1" == TERM && "$(job_state)" != RUNNING ]]; then return 0; fi
  say "SIG$1: the run is asked to stop"
  signalled=1
  pass_on
}
pass_on() {
  [[ -n "$step" ]] || return 0
  # In its first moments srun dies of a signal, and mpiexec loses it.
  while ((SECONDS - started < 2)); do sleep 0.1 || true; done
  kill -s USR1 "$step" 2>/dev/null || true
}
trap 'forward USR1' USR1
trap 'forward TERM' TERM

identity() { stat -c '%i %Y' "$summary" 2>/dev/null || true; }
summary_before="$(identity)"
((signalled == 0)) || stop 5 "asked to stop before the run began"
started="$SECONDS"
"${launch[@]}" bash -c "$show" rank "$SHARD8_PROGRAM" run "$@" </dev/null &
step="$!"
((signalled == 0)) || pass_on  # a signal since the line above
while :; do  # a signal interrupts `wait`
  before="$signals" code=0
  wait "$step" || code="$?"
  ((signals == before)) && break
done

# ended KEY: what the summary of this run says in "end".
ended() {
  [[ "$(identity)" != "$summary_before" ]] || return 0
  sed -n '/^  "end": {/,/^  }/s/^    "'"$1"'": \([a-z0-9]*\),\{0,1\}$/\1/p' "$summary"
}

# mpiexec may return 0 when ranks ended after a signal.
if ((signalled && code == 0)) && [[ "$(ended finished)" != true ]]; then
  code=5
  if [[ "$(ended checkpoint)" == true ]]; then code=75; fi
fi

# give_up REASON: the job fails.
give_up() { stop 75 "the run stopped with a checkpoint, but the job is not requeued: $*"; }

if ((code == 75)); then
  state="$(job_state)"
  [[ "$state" == RUNNING ]] || give_up "Slurm ends it ($state)"
  reached="$(ended next_step)"
  [[ -n "$reached" ]] || give_up "$summary does not say at which step the run stopped"
  [[ -z "$remembered" ]] || ((reached > remembered)) ||
    give_up "its checkpoint has not advanced: it was at step $remembered, now at $reached"
  printf 'job %s stopped before step %s\n' "$SLURM_JOB_ID" "$reached" >"$memory"
  ((requeues < max_requeues)) || give_up "MAX_REQUEUES is $max_requeues; submit it again to go on from step $reached"
  say "requeued, to go on from step $reached"
  scontrol requeue "$SLURM_JOB_ID" || give_up "scontrol requeue failed"
fi
exit "$code"
