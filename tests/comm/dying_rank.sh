#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
#
# dying_rank.sh PROGRAM MPIEXEC [ARGUMENT...]
#
# However one rank ends, all others must end within 10 s, with a code that is not 0 and a message. A rank that is
# stopped (stop_in_*) is noticed by the others' watchdogs, which allow it 2 s. In abort_hangs MPI_Abort does not return.
set -euo pipefail

program=$1
shift
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
count=0

# way waiting expected-code expected-text. Three jobs run at a time: most of their time is waiting.
expect() {
  while (($(jobs -rp | wc -l) >= 3)); do wait -n || true; done
  count=$((count + 1))
  run_and_judge "$@" >"$results/$(printf '%03d' "$count")" &
}
run_and_judge() {
  local way=$1 waiting=$2 code=$3 text=$4 begin end status=0 output
  begin=$(date +%s%N)
  output=$(timeout -k 5 30 "${launch[@]}" "$program" "$way" "$waiting" 2>&1 </dev/null) || status=$?
  end=$(date +%s%N)
  local ms=$(((end - begin) / 1000000)) problem=""
  if ((ms >= 10000)); then problem="took too long; "; fi
  if [[ $code == any ]]; then
    if ((status == 0)); then problem+="expected a code that is not 0; "; fi
  elif ((status != code)); then
    problem+="expected code $code; "
  fi
  if ! grep -qE -- "$text" <<<"$output"; then problem+="expected the text '$text'; "; fi
  printf '%-18s %-6s code %3d after %5d ms %s\n' "$way" "$waiting" "$status" "$ms" "${problem:-ok}"
  if [[ -n $problem ]]; then
    printf '%s\n' "$output" | sed 's/^/    /'
    touch "$results/failed"
  fi
}

launch=("$@" 4)
expect well yield 0 ""
expect stopped yield 75 ""
expect error yield 4 "shard8: rank 3: cannot read block 7"
expect error spin 4 "shard8: rank 3: cannot read block 7"
expect ok_error yield 5 "shard8: rank 3: an error that calls itself ok"
expect exception yield 5 "shard8: rank 3: a plain exception"
expect unknown yield 5 "shard8: rank 3: an exception of unknown type"
expect destructor yield 3 "shard8: rank 3: the device is lost"
expect thread yield 3 "shard8: rank 3: the disk is lost"
expect unguarded yield 5 "shard8: rank 3: said by hand"
expect agreed yield 3 "shard8: rank 3: no device"
expect agreed_in_part yield 3 "no odd device"
expect kill yield any "signal"
expect kill spin any "signal"
expect abort yield any "signal"
expect exit0 yield 5 "shard8: rank 3: left by exit\(0\)"
expect exit9 yield 9 "shard8: rank 3: left by exit\(9\)"
expect abort_hangs yield any "shard8: rank 3: cannot read block 7"
for waiting in yield spin; do
  expect stop_in_all_reduce "$waiting" 5 "all_reduce in group 'world' on its rank [0-2] of 4, call 2, 400000 bytes: has waited 2 s for rank 3 of the group"
  expect stop_in_barrier "$waiting" 5 "barrier in group 'world' on its rank [0-2] of 4: has waited 2 s for other ranks"
done
expect stop_before_gather_parts yield 5 "all_gather for fc1_fprop in group 'world' on its rank [0-2] of 4, call 3, 16000 bytes: has waited 2 s for rank 3 of the group"
expect stop_in_scatter_parts spin 5 "reduce_scatter for fc2_fprop in group 'world' on its rank [0-2] of 4, call 3, 16000 bytes: has waited 2 s for rank 3 of the group"
# Its rows were there before it stopped: the others wait for it behind the exchange.
expect stop_in_gather_parts yield 5 "shard8: rank [0-2]: .*in group 'world' on its rank [0-2] of 4.*: has waited 2 s for"
expect stop_before_scatter_parts spin 5 "reduce_scatter for fc2_fprop in group 'world' on its rank [0-2] of 4, call 3, 16000 bytes: has waited 2 s for rank 3 of the group"
expect kill_before_gather_parts yield any "signal"
expect kill_in_scatter_parts spin any "signal"
# Round a ring a rank waits for its neighbour, and says whose rows it waits for.
expect stop_before_gather_ring_parts yield 5 "all_gather for fc1_fprop in group 'world' on its rank 0 of 4, call 3, 16000 bytes: has waited 2 s for rank 3 of the group, for the rows of rank 3|all_gather for fc1_fprop in group 'world' on its rank [12] of 4, call 3, 16000 bytes: has waited 2 s for rank [01] of the group, for the rows of rank 3"
expect stop_before_scatter_ring_parts spin 5 "reduce_scatter for fc2_fprop in group 'world' on its rank [0-2] of 4, call 3, 16000 bytes: has waited 2 s for rank [1-3] of the group, for the rows of rank [0-2]"
expect stop_in_gather_ring_parts yield 5 "all_gather for fc1_fprop in group 'world' on its rank [0-2] of 4, call 3, 16000 bytes: has waited 2 s for rank [0-3] of the group"
expect kill_before_gather_ring_parts spin any "signal"
expect kill_in_scatter_ring_parts yield any "signal"
expect no_start yield any "shard8: on .*: MPI_Init_thread: has waited 2 s for other ranks"
expect stop_in_split yield 5 "MPI_Comm_split in group 'world' on its rank [0-2] of 4: has waited 2 s"
# MPI is gone by then: the launcher may give the code of the stopped rank, which it kills.
expect stop_in_finalize yield any "MPI_Comm_free in group 'world' on its rank [0-2] of 4: has waited 2 s|MPI_Finalize: has waited 2 s"
launch=("$@" 1)
expect error yield 4 "shard8: cannot read block 7"

wait
cat "$results"/[0-9]*
[[ ! -e "$results/failed" ]]
