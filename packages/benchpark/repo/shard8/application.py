# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0

from ramble.appkit import *


class Shard8(ExecutableApplication):
    """shard8 trains a transformer with sharded weights, tensor parallelism and FP8."""

    name = 'shard8'
    tags = ['machine-learning', 'mini-app', 'mpi', 'c++', 'kokkos', 'cuda', 'openmp']

    executable('train', 'shard8 run {decks}/{deck} mesh.shard={shard} mesh.tensor={tensor} {overrides}', use_mpi=True)

    workload('quickstart', executables=['train'])
    workload('llama_8b', executables=['train'])

    all_workloads = ['quickstart', 'llama_8b']
    workload_variable('deck', default='quickstart.yaml', description='deck', workloads=['quickstart'])
    workload_variable('deck', default='bench/llama_8b_2x2_bf16.yaml', description='deck', workloads=['llama_8b'])
    workload_variable('decks', default='{shard8_path}/share/shard8/decks', description='folder of the decks',
                      workloads=all_workloads)
    workload_variable('shard', default='2', description='ranks over which weights are sharded',
                      workloads=all_workloads)
    workload_variable('tensor', default='2', description='ranks that share matrix products', workloads=all_workloads)
    workload_variable('overrides', default='output.dir={experiment_run_dir}/results',
                      description='changes to the deck', workloads=all_workloads)

    log = '{experiment_run_dir}/{experiment_name}.out'
    number = r'(?P<value>[0-9.eE+-]+)'
    figure_of_merit('tokens/s', fom_regex=r'^tokens/s: ' + number, group_name='value', units='tokens/s', log_file=log)
    figure_of_merit('tokens/s/rank', fom_regex=r'.*tokens/s/rank: ' + number, group_name='value', units='tokens/s',
                    log_file=log)
    figure_of_merit('step p50', fom_regex=r'step time: p50 ' + number, group_name='value', units='ms', log_file=log)
    figure_of_merit('exposed communication', fom_regex=r'.*exposed communication: ' + number, group_name='value',
                    units='%', log_file=log)
    figure_of_merit('final loss', fom_regex=r'final loss ' + number, group_name='value', units='nats', log_file=log)

    success_criteria('verified', mode='string', match=r'VERIFICATION: (PASSED|NOT CHECKED|NOT CONFIGURED)', file=log)
