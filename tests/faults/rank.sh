#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
#
# rank.sh FOLDER VICTIM FAULT VALUE PROGRAM [ARGUMENT...]
#
# Starts one rank of a job of faults.sh in the folder FOLDER/RANK, with a fault if it is rank VICTIM. Some faults need
# VALUE. Appends the rank's process to FOLDER/pids.
set -euo pipefail

folder=$1 victim=$2 fault=$3 value=$4
shift 4
rank=${PMI_RANK:-${PMIX_RANK:-${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:?no launcher says which rank this is}}}}

mkdir -p "$folder/$rank"
cd "$folder/$rank"
cp "$SHARD8_GOLD/llama_tiny.h5" data.h5
cp data.h5 init.h5
# The process, with its start: another process may get the number later.
read -r -a stat </proc/$$/stat
echo "$$ ${stat[21]}" >>"$folder/pids"

if [[ $rank != "$victim" ]]; then exec "$@"; fi
export SHARD8_FAULT=$fault SHARD8_FAULT_FOLDER=$folder
case $fault in
  well) exec "$@" ;;
  missing)
    rm "$value"
    touch "$folder/fault"
    exec "$@"
    ;;
  no_memory)
    touch "$folder/fault"
    ulimit -v "$value"
    exec "$@"
    ;;
  library)
    touch "$folder/fault"
    exec env LD_PRELOAD="$value" "$@"
    ;;
  unreadable) export SHARD8_FAULT_FILE=$value ;;
  count) ;;
  version) ;;
  *) export SHARD8_FAULT_AT=$value ;;
esac
exec env LD_PRELOAD="$SHARD8_FAULT_LIBRARY" "$@"
