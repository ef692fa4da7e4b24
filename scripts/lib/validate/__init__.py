# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/validate: projected against measured step times."""


class Refused(Exception):
    """Bad usage, rows or stacks: a message for each, printed together; the exit code."""

    def __init__(self, messages, code=2):
        super().__init__("\n".join(messages if isinstance(messages, list) else [messages]))
        self.code = code
