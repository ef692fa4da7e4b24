# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Benchpark: shard8 on several meshes, strong scaling of one deck."""

from benchpark.cuda import CudaExperiment
from benchpark.directives import variant
from benchpark.experiment import Experiment
from benchpark.openmp import OpenMPExperiment


class Shard8(Experiment, OpenMPExperiment, CudaExperiment):
    variant('workload', default='quickstart', values=('quickstart', 'llama_8b'), description='the deck to train')
    variant('version', default='main', description='version of shard8')

    def compute_applications_section(self):
        # Pairs of (shard, tensor): ranks = shard * tensor.
        meshes = [(1, 4), (2, 2), (4, 1)] if self.spec.satisfies('workload=llama_8b') else [(1, 1), (2, 1), (2, 2)]
        self.add_experiment_variable('shard', [shard for shard, tensor in meshes], True)
        self.add_experiment_variable('tensor', [tensor for shard, tensor in meshes], True)
        self.add_experiment_variable('n_ranks', '{shard} * {tensor}')
        self.zip_experiment_variables('mesh', ['shard', 'tensor'])
        self.matrix_experiment_variables('mesh')
        if self.spec.satisfies('+cuda'):
            self.add_experiment_variable('n_gpus', '{n_ranks}')
        else:
            self.add_experiment_variable('n_threads_per_proc', '1')

    def compute_spack_section(self):
        version = self.spec.variants['version'][0]
        self.add_spack_spec('default-mpi')
        self.add_spack_spec(self.name, [f'shard8@{version}', 'default-compiler'])
