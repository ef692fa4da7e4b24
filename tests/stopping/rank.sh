#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
#
# rank.sh PROGRAM [ARGUMENT...]
#
# One rank of a run of stopping.sh: writes its process into $job/pid.RANK. With SHARD8_TEST_HOLD rank 1 starts when there
# is a file $job/go.
set -euo pipefail
: "${job:?}"
rank=${PMI_RANK:-${PMIX_RANK:-${OMPI_COMM_WORLD_RANK:-0}}}
echo "$$" >"$job/pid.$rank"
if [[ -n ${SHARD8_TEST_HOLD:-} && $rank == 1 ]]; then
  until [[ -e $job/go ]]; do sleep 0.05; done
fi
exec "$@"
