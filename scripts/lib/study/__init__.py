# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Studies: many runs of one deck, their tables and their pictures. docs/study.md describes them."""
