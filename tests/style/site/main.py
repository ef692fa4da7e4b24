# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""usage: main.py ROOT SITE: prints the faults of a built site; exit code 1 if there is one."""
import os
import sys

from site_faults import Site, order_faults

root, folder = sys.argv[1:]
site = Site(folder)
found = list(site.faults())
with open(os.path.join(root, "docs", "index.md"), encoding="utf-8") as file:
    found += order_faults(file.read(), site.pages["index.html"])
print("\n".join(found) or f"{len(site.pages)} pages are good")
sys.exit(bool(found))
