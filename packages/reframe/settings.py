# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""ReFrame settings for one machine without a batch system. Sites use their own."""

site_configuration = {
    'systems': [{
        'name': 'local',
        'hostnames': ['.*'],
        'partitions': [{
            'name': 'default',
            'scheduler': 'local',
            'launcher': 'mpiexec',
            'environs': ['default'],
            'max_jobs': 1,
        }],
    }],
    'environments': [{'name': 'default'}],
    'logging': [{
        'handlers': [{'type': 'stream', 'name': 'stdout', 'level': 'info', 'format': '%(message)s'}],
        'handlers_perflog': [{
            'type': 'filelog',
            'prefix': '%(check_system)s/%(check_partition)s',
            'level': 'info',
            'format': '%(check_result)s|%(check_job_completion_time)s|%(check_info)s|%(check_perfvalues)s',
            'append': True,
        }],
    }],
}
