# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Pages from disk in a Chromium without a screen."""
import json
import os
import re
import shutil
import subprocess

NAMES = [os.environ.get("SHARD8_BROWSER", ""), "chromium", "chromium-browser", "google-chrome"]


def find():
    """The path of the browser; None without one."""
    return next((path for name in NAMES if name and (path := shutil.which(name))), None)


def browse(browser, page, folder, width, *options, timeout):
    """The DOM of a page, the lines of the console, the addresses that the page asked a network for, and the browser's messages.
    The browser keeps its profile and its log in `folder`."""
    log = os.path.join(os.path.abspath(folder), "net.json")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--enable-logging=stderr", f"--log-net-log={log}",
         f"--user-data-dir={os.path.join(os.path.abspath(folder), 'profile')}", f"--window-size={width},900", *options,
         "--dump-dom", f"file://{os.path.abspath(page)}"], text=True, capture_output=True, timeout=timeout, check=False)
    console = re.findall(r"CONSOLE\S*\] (.*)", done.stderr)
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        events = json.loads(text)["events"]
    except ValueError:  # a browser that was ended leaves the list open
        events = json.loads(text.rstrip().rstrip(",") + "]}")["events"]
    requests = {e["params"]["url"] for e in events if e.get("params", {}).get("url", "").startswith(("http", "ws")) and
                "file" in str(e["params"].get("initiator", "")) + str(e["params"].get("network_isolation_key", ""))}
    return done.stdout, console, requests, done.stderr
