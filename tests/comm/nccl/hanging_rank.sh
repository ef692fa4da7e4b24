#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
#
# hanging_rank.sh RANKS PROGRAM MPIEXEC [ARGUMENT...]
#
# When one rank does not take part in a collective on the device, the watchdog of another must say which
# it is and end the job with code 5. Exits 77 (skipped) where there are not as many devices.
set -euo pipefail

ranks=$1 program=$2
shift 2
failures=0

for when in first later; do
  for how in compute exchange nccl push; do
    group=shard
    if [[ $how == compute || $how == exchange ]]; then group=world; fi
    begin=$(date +%s%N) status=0
    output=$(timeout -k 5 90 "$@" "$ranks" "$program" "$when" "$how" 2>&1 </dev/null) || status=$?
    ms=$((($(date +%s%N) - begin) / 1000000)) problem=""
    if ((status == 77)); then
      printf '%s\n' "$output"
      exit 77
    fi
    if ((status != 5)); then problem="expected code 5; "; fi
    text="all_gather in group '$group' on its rank [0-9] of $ranks (has been on the device for|has not been given to the device:"
    text+=" the host has been at it for) [0-9]+ s: 1048576 bytes of fp32"
    if ! grep -qE -- "$text" <<<"$output"; then problem+="expected the text /$text/; "; fi
    printf '%-6s %-8s code %3d after %6d ms %s\n' "$when" "$how" "$status" "$ms" "${problem:-ok}"
    printf '%s\n' "$output" | grep -E "^shard8:" | head -2 | sed 's/^/    /' || true
    if [[ -n $problem ]]; then
      printf '%s\n' "$output" | sed 's/^/    /'
      failures=$((failures + 1))
    fi
  done
done

exit $((failures > 0))
