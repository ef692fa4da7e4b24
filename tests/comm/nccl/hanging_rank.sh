#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
#
# hanging_rank.sh RANKS PROGRAM MPIEXEC [ARGUMENT...]
#
# When one rank does not take part in a collective on the device, the watchdog of another must say which collective it
# is, and which rank is missing if ranks push to each other, and end the job with code 5. Exits 77 (skipped) where there
# are not as many devices.
set -euo pipefail

ranks=$1 program=$2
shift 2
failures=0

last="rank $((ranks - 1)) of the group"
for when in first later; do
  ways="compute exchange nccl push"
  # At the first launch of their kernel CUDA may load it, and for that wait for the streams that hang.
  if [[ $when == later ]]; then ways+=" direct parts"; fi
  for how in $ways; do
    group=shard operation="all_gather for fc1_dgrad" missing="$last has not come to it"
    case $how in
      compute) group=world missing="another rank does not take part in it" ;;
      exchange) group=world ;;
      nccl) missing="another rank does not take part in it" ;;
      direct) operation="all_gather for fc1_fprop" ;;
      parts) operation="reduce_scatter for proj_fprop" missing="$last has given 1 of 2 chunks" ;;
    esac
    begin=$(date +%s%N) status=0
    output=$(timeout -k 5 90 "$@" "$ranks" "$program" "$when" "$how" 2>&1 </dev/null) || status=$?
    ms=$((($(date +%s%N) - begin) / 1000000)) problem=""
    if ((status == 77)); then
      printf '%s\n' "$output"
      exit 77
    fi
    # Where ranks cannot push to each other, NCCL moves the data.
    note=""
    if [[ $output == *"is not active"* ]]; then
      missing="another rank does not take part in it" note=", without peers' memory"
    fi
    if ((status != 5)); then problem="expected code 5; "; fi
    text="$operation in group '$group' on its rank [0-9] of $ranks (has been on the device for|has not been given to"
    text+=" the device: the host has been at it for) [0-9]+ s: 1048576 bytes of fp32, call [0-9]+ on the [a-z]+ stream;"
    text+=" $missing"
    if ! grep -qE -- "$text" <<<"$output"; then problem+="expected the text /$text/; "; fi
    printf '%-6s %-8s code %3d after %6d ms %s\n' "$when" "$how" "$status" "$ms" "${problem:-ok$note}"
    printf '%s\n' "$output" | grep -E "^shard8:" | head -2 | sed 's/^/    /' || true
    if [[ -n $problem ]]; then
      printf '%s\n' "$output" | sed 's/^/    /'
      failures=$((failures + 1))
    fi
  done
done

exit $((failures > 0))
