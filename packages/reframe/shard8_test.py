# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""ReFrame tests of an installed or built shard8: see packages/README.md.

The program is SHARD8_PROGRAM, or `shard8` of the PATH. The decks are in SHARD8_DECKS, or in share/shard8/decks of the
program's tree.
"""

import os
import shutil

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ


def program():
    return os.environ.get('SHARD8_PROGRAM') or shutil.which('shard8') or 'shard8'


def decks():
    tree = os.path.dirname(os.path.dirname(os.path.abspath(program())))
    return os.environ.get('SHARD8_DECKS') or os.path.join(tree, 'share', 'shard8', 'decks')


class Shard8Run(rfm.RunOnlyRegressionTest):
    """A run of a deck that must pass its own verification."""

    valid_systems = ['*']
    valid_prog_environs = ['*']
    executable = program()
    num_cpus_per_task = 1
    time_limit = '20m'
    deck = variable(str)
    #: changes to the deck, as mesh.shard=2
    overrides = variable(typ.List[str], value=[])
    #: the final loss on every mesh, and how far it may be off, relative
    final_loss = variable(float)
    loss_tolerance = variable(float, value=0.01)
    maintainers = ['shard8']
    tags = {'shard8', 'training'}

    @run_before('run')
    def arguments(self):
        self.executable_opts = ['run', os.path.join(decks(), self.deck), *self.overrides]
        self.env_vars['OMP_NUM_THREADS'] = self.num_cpus_per_task
        self.env_vars['OMP_PROC_BIND'] = 'false'

    @sanity_function
    def verified(self):
        loss = sn.extractsingle(r'^final loss (\S+),', self.stdout, 1, float)
        return sn.all([
            sn.assert_found(r'^VERIFICATION: PASSED', self.stdout),
            sn.assert_reference(loss, self.final_loss, -self.loss_tolerance, self.loss_tolerance,
                                msg='final loss {0}, expected {1} (from {2} to {3})'),
        ])

    @performance_function('tokens/s')
    def tokens_per_s(self):
        return sn.extractsingle(r'^tokens/s: (\S+)', self.stdout, 1, float)

    @performance_function('ms')
    def step_p50(self):
        return sn.extractsingle(r'^step time: p50 (\S+) ms', self.stdout, 1, float)

    @performance_function('%')
    def exposed_communication(self):
        return sn.extractsingle(r'exposed communication: (\S+) %', self.stdout, 1, float)


@rfm.simple_test
class Quickstart(Shard8Run):
    """The quickstart on one to four ranks: in FP32 the loss is the same on every mesh."""

    mesh = parameter(['1x1', '2x1', '1x2', '2x2'])  # shard x tensor
    deck = 'quickstart.yaml'
    final_loss = 2.2757

    @run_after('init')
    def ranks(self):
        shard, tensor = (int(n) for n in self.mesh.split('x'))
        self.num_tasks = shard * tensor
        self.overrides = [f'mesh.shard={shard}', f'mesh.tensor={tensor}']
