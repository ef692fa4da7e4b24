# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: no error in its console, no request, every picture drawn and inside of the window.
Skipped without Chromium: SHARD8_BROWSER, chromium, chromium-browser or google-chrome."""
import os
import re
import subprocess
import sys
import unittest

import samples

sys.path.insert(0, os.path.join(os.environ["SHARD8_SOURCES"], "tests", "support"))
import chromium  # noqa: E402  its folder is named first

PLOT = os.path.join(os.environ["SHARD8_SOURCES"], "scripts", "plot")
BROWSER = chromium.find()
PROBE = """<script>
const shown = [...document.querySelectorAll("svg:not(.swatch)")].filter(s => s.getClientRects().length);
const bad = shown.filter(s => s.getBBox().width < 50 || s.getBBox().height < 20 || s.getBBox().x < -1 ||
  s.getBBox().x + s.getBBox().width > s.viewBox.baseVal.width + 1);
parent.postMessage(["probe", innerWidth, document.documentElement.scrollWidth, shown.length,
  bad.map(s => s.getAttribute("aria-label")).join("/")].join("|"), "*");
</script>"""
# A browser without a screen has windows of at least 500 pixels, so the page is looked at in a frame.
FRAME = """<body style="margin:0"><script>onmessage = e => document.title = e.data</script>
<iframe src="probe.html" style="border:0;width:{width}px;height:900px"></iframe></body>"""


def browse(path, width, *options):
    """The DOM, the lines of the console, and the addresses of the page's requests."""
    return chromium.browse(BROWSER, path, ".", width, *options, timeout=120)[:3]


def with_probe(path, width):
    """A page with a frame of a width, in which the report measures itself; the result becomes the title."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open("probe.html", "w", encoding="utf-8") as file:
        file.write(text.replace("</body>", PROBE + "</body>"))
    with open("frame.html", "w", encoding="utf-8") as file:
        file.write(FRAME.format(width=width))
    return "frame.html"


class InABrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        samples.run("a_run", every=True)
        samples.gemms("a_run/overlap.json")
        samples.study("a_study")
        samples.projection("one.json")
        os.makedirs("several")
        for words in (["a_run"], ["a_study"], ["a_run", "a_study", "one.json", "-o", "several/report.html"]):
            subprocess.run([PLOT, *words], check=True)

    def test_the_checks_find_what_they_look_for(self):
        with open("bad.html", "w", encoding="utf-8") as file:
            file.write('<body><img src="http://127.0.0.1:9/x.png"><script>console.error("a fault")</script></body>')
        _, console, requests = browse("bad.html", 800)
        self.assertTrue(any("a fault" in line for line in console), console)
        self.assertEqual(requests, {"http://127.0.0.1:9/x.png"})

    def test_no_error_and_no_request(self):
        for folder in ("a_run", "a_study", "several"):
            dom, console, requests = browse(f"{folder}/report.html", 1280)
            self.assertIn("What was run", dom)
            self.assertEqual((console, requests), ([], set()))

    def test_every_picture_is_drawn_and_fits(self):
        for folder, pictures in (("a_run", 8), ("a_study", 5), ("several", 5)):
            for width in (1280, 400):
                dom, _, _ = browse(with_probe(f"{folder}/report.html", width), 1400, "--virtual-time-budget=3000")
                _, inner, scroll, shown, bad = re.search(r"<title>(probe\|.*?)</title>", dom)[1].split("|")
                self.assertEqual((int(inner), int(shown), bad), (width, pictures, ""), folder)
                self.assertLessEqual(int(scroll), width, folder)


if BROWSER is None:
    print("skipped: there is no Chromium: set SHARD8_BROWSER, or install one (Debian: apt-get install chromium)")
    sys.exit(1 if os.environ.get("CI") == "true" else 77)
