#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
#
# faults.sh FOLDER RANKS RECIPE [VICTIM...]
#
# The table of faults: in a job of RANKS ranks with an FP8 recipe one rank (VICTIM; by default the last one) gets each
# fault of the file `table`. Then all ranks must end within 10 s, plus the watchdog's limit for a rank that is stopped,
# with a status that is not 0, with that rank's own message or one that names it, and no process may remain.
# SHARD8_PROGRAM, SHARD8_MPIEXEC (a command), SHARD8_FAULT_LIBRARY (see preload.cpp), SHARD8_GOLD and CXX name what it
# uses. Prints a line for each case, and all output of a case that fails.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$1 ranks=$2 recipe=$3
shift 3
victims=("$@")
if (($# == 0)); then victims=($((ranks - 1))); fi
read -r -a launch <<<"$SHARD8_MPIEXEC"
hang_limit_s=3
failures=0

rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
tensor=$((ranks / 2))
cat >"$folder/deck.yaml" <<DECK
model:     {arch: llama, hidden: 64, ffn: 192, layers: 2, heads: 4, kv_heads: 2, vocab: 256, seq: 32,
            init_file: "init.h5:/init"}
mesh:      {shard: 2, tensor: $tensor}
precision: {compute: fp32}
fp8:       {recipe: $recipe}
optimizer: {lr: 3.0e-3}
data:      {kind: tokens, path: "data.h5:/tokens", batch: 8}
run:       {steps: 20, timing_skip: 0, hang_limit_s: $hang_limit_s}
output:    {dir: $folder/out, replace: true}
DECK

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# Processes of the job that have not ended. A zombie has: only its parent has not asked for its status yet.
alive() {
  local pid start
  while read -r pid start; do
    local stat=()
    if [[ -r /proc/$pid/stat ]]; then read -r -a stat <"/proc/$pid/stat" || stat=(); fi
    if [[ ${stat[21]:-} == "$start" && ${stat[2]} != Z ]]; then echo "$pid"; fi
  done 2>/dev/null <"$job/pids"
}

# victim fault value argument...: runs the job in $job, sets status, ms (from the fault, or from the start if none
# happened, to the end of the last process) and remained.
run_job() {
  local victim=$1 fault=$2 value=$3 begin end
  shift 3
  rm -rf "$job"
  mkdir -p "$job"
  touch "$job/pids"
  begin=$(now_ms) status=0
  timeout -k 5 60 "${launch[@]}" -n "$ranks" "$here/rank.sh" "$job" "$victim" "$fault" "$value" \
    "$SHARD8_PROGRAM" run "$folder/deck.yaml" "$@" >"$job/output" 2>&1 </dev/null || status=$?
  for ((i = 0; i < 20; ++i)); do
    remained=$(alive)
    if [[ -z $remained ]]; then break; fi
    sleep 0.1
  done
  end=$(now_ms)
  if [[ -n $remained ]]; then kill -KILL $remained || true; fi
  if [[ -e $job/fault ]]; then begin=$(($(date -r "$job/fault" +%s%N) / 1000000)); fi
  ms=$((end - begin))
}

fail_case() {
  sed 's/^/    /' "$job/output"
  failures=$((failures + 1))
}

# A run without a fault. The other cases need its figures: messages that the victim sends, its address space, its time.
job=$folder/count
run_job "${victims[0]}" count 1
if ((status != 0)) || ! grep -q messages "$job/counts"; then
  echo "without a fault: code $status"
  fail_case
  exit 1
fi
read -r -a counts <"$job/counts"
messages=${counts[0]#messages=} peak_kib=${counts[1]#peak_kib=} well_ms=$ms
echo "without a fault: $ranks ranks, recipe $recipe, $well_ms ms, $messages messages, $((peak_kib / 1024)) MiB"

# A library with the BLAS' name but without its functions: the first product fails. (Not every launcher notices a rank
# that the loader ends before MPI is initialised: see comm.environment.dying_rank.)
library=$(readelf -d "$SHARD8_PROGRAM" | sed -nE 's/.*\(NEEDED\).*\[(lib[^]]*(blas|mkl)[^]]*)\].*/\1/p' | head -n 1)
"$CXX" -shared -fPIC -x c++ /dev/null -Wl,-soname,"${library:?the program needs no library of a BLAS}" -o "$folder/$library"

for victim in "${victims[@]}"; do
  while IFS='|' read -r name fault value code text; do
    if [[ -z $name || $name == \#* ]]; then continue; fi
    name=${name// /} fault=${fault// /} value=${value// /} code=${code// /} text=${text# }
    arguments=() allowed_ms=10000
    case $fault in
      no_memory)
        if ((value > 0)); then arguments=(data.kind=synthetic data.path= data.batch=4096); fi
        value=$((peak_kib + value * 1024))
        ;;
      library) value=$folder/$library ;;
      throw | exit0 | exit3 | kill) value=$((messages / 2)) ;;
      stop) value=$((messages / 2)) allowed_ms=$((10000 + hang_limit_s * 1000)) ;;
    esac
    if [[ $fault == missing || $fault == no_memory || $fault == library ]]; then
      allowed_ms=$((allowed_ms + well_ms)) # the fault is there from the start
    fi
    text=${text//VICTIM/$victim}
    job=$folder/$victim.$name
    run_job "$victim" "$fault" "$value" "${arguments[@]}"
    problem=""
    if ((ms > allowed_ms)); then problem+="ended $ms ms after the fault, allowed are $allowed_ms; "; fi
    if ((status == 0)) || [[ $code != any && $status != "$code" ]]; then problem+="code $status, expected $code; "; fi
    if [[ ! -e $job/fault ]]; then problem+="the fault did not happen; "; fi
    if [[ -n $remained ]]; then problem+="processes remained: ${remained//$'\n'/ }; "; fi
    if ! grep -qE -- "$text" "$job/output"; then problem+="expected the text /$text/; "; fi
    # The first message must be the right one.
    if [[ $text == ^* ]] && ! sed -nE '/: warning: /d; /^(shard8:|rank [0-9]+:)/{p;q}' "$job/output" | grep -qE -- "$text"; then
      problem+="the first message is another one; "
    fi
    printf 'rank %d of %d  %-8s %-18s code %3d after %6d ms  %s\n' "$victim" "$ranks" "$recipe" "$name" "$status" "$ms" \
      "${problem:-ok}"
    if [[ -n $problem ]]; then fail_case; fi
  done <"$here/table"
done
if ((failures > 0)); then
  echo "$failures cases failed"
  exit 1
fi
