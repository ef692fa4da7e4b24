# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Each fault of a site is found, at its page and line, and a good site has none."""
import os
import tempfile
import unittest

from contrast import colour, contrast
from css import Selector, applies
from page import parse
from faults import Site, order_faults

CSS = """/* colours */ :root{--text:#222;--back:#fff;--link:var(--deep);--deep:#0645ad}
[data-md-color-scheme=slate]{--text:hsla(232,15%,90%,0.82);--back:rgb(20 24 27);--deep:#7db7f5;--link:var(--deep)}
body{color:var(--text);background-color:var(--back)} a{color:var(--link)} @media print{a{color:#fff}} a:hover{color:#fff}
.note p > b{color:#767676;background:#fff url(dot.png)} .note{opacity:1} @font-face{font-family:x;src:url(dot.png)}"""
PAGE = """<!doctype html><html><head><title>t</title><link rel="stylesheet" href="a/x.css"></head>
<body><h1 id="top">A page</h1>
<p>text <a href="other.html#there">link</a> <a href="https://example.org/">away</a></p>
<h2>Two</h2>
<img src="dot.png" alt="a dot">
<h3>Three</h3><div class="note"><p>said</p></div>
</body></html>"""
OTHER = '<html><head><link rel="stylesheet" href="a/x.css"></head><body><h1 id="there">Other</h1></body></html>'


class Faults(unittest.TestCase):
    def faults(self, page=PAGE, css=CSS):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "a"))
            for name, text in (("page.html", page), ("other.html", OTHER), ("a/x.css", css), ("dot.png", ""), ("a/dot.png", "")):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            return list(Site(folder).faults())

    def one(self, expected, **site):
        found = self.faults(**site)
        self.assertEqual(len(found), 1, found)
        self.assertRegex(found[0], expected)

    def test_a_good_site(self):
        self.assertEqual(self.faults(), [])

    def test_headings(self):
        self.one(r"^page.html:1: has 2 headings of level 1", page=PAGE.replace("h2>", "h1>").replace("h3>", "h2>"))
        self.one(r"^page.html:1: has 0 headings of level 1", page="<html><body><p>text</p></body></html>")
        self.one(r"^page.html:6: heading 'Three' of level 4 follows one of level 2", page=PAGE.replace("h3>", "h4>"))

    def test_texts_of_pictures(self):
        self.one(r"^page.html:5: the picture 'dot.png' has no", page=PAGE.replace(' alt="a dot"', ""))
        self.one(r"^page.html:5: the picture 'dot.png' has no", page=PAGE.replace("a dot", " "))

    def test_markdown_that_was_not_understood(self):
        self.one(r"^page.html:6: '\| a \| b \|", page=PAGE.replace("said", "| a | b |"))
        self.one(r"^page.html:6: ", page=PAGE.replace("said", "three things:\n- <i>one</i>"))

    def test_links(self):
        self.one(r"^page.html:3: 'none.html#there' leads to no file", page=PAGE.replace("other.html", "none.html"))
        self.one(r"^page.html:3: 'other.html#here' leads to no anchor", page=PAGE.replace("#there", "#here"))
        self.one(r"^page.html:5: 'no.png' leads to no file", page=PAGE.replace("dot.png", "no.png"))
        self.one(r"^page.html:3: '#x' leads to no anchor of page.html", page=PAGE.replace("other.html#there", "#x"))

    def test_resources_of_a_network(self):
        for address in ("https://example.org/x.js", "//example.org/x.js"):
            self.one(r"^page.html:6: <script> loads", page=PAGE.replace("said", f'<script src="{address}"></script>'))
        self.one(r"^page.html:5: <img> loads", page=PAGE.replace("dot.png", "http://example.org/dot.png"))
        self.one(r"^page.html:6: a style loads", page=PAGE.replace("<p>said", '<p style="background:url(//example.org/x)">said'))
        self.one(r"^a/x.css:1: loads 'https:", css=CSS + "@import 'https://example.org/x.css';")
        self.one(r"^a/x.css:1: loads 'none.woff'", css=CSS + "@font-face{src:url(none.woff)}")

    def test_contrast(self):
        self.one(r"^page.html:3: contrast 2.85 of 'link', <a .* default", css=CSS.replace("--deep:#0645ad", "--deep:#999"))
        self.one(r"^page.html:3: contrast 2.\d+ of 'link', <a .* slate", css=CSS.replace("--deep:#7db7f5", "--deep:#0645ad"))
        bold = PAGE.replace("said", "<b>said</b>")
        self.assertEqual(self.faults(page=bold), [])
        found = self.faults(page=bold, css=CSS.replace("#767676", "#787878"))
        self.assertEqual([fault[:29] for fault in found], 2 * ["page.html:6: contrast 4.42 of"], found)
        self.one("contrast 3.9. of 'said', .* slate", page=bold, css=CSS.replace("background:#fff url(dot.png)", "background:none"))
        found = self.faults(css=CSS.replace(".note{opacity:1}", ".note{opacity:.4}"))
        self.assertTrue(found and all("'said'" in fault for fault in found), found)
        found = self.faults(css=CSS + "p a[href^='http']{color:var(--none)}")
        self.assertEqual(found, 2 * ["page.html:3: cannot read a colour of <a class=''>: --none is not declared"])

    def test_colours(self):
        self.assertAlmostEqual(contrast(colour("#000"), colour("white")), 21)
        self.assertAlmostEqual(contrast(colour("#767676"), colour("#fff")), 4.54, 2)
        self.assertEqual(colour("#0f08"), (0, 1, 0, 0x88 / 255))
        self.assertEqual(colour("hsla(120,100%,50%,0.5)"), (0, 1, 0, 0.5))
        self.assertRaises(ValueError, colour, "none")

    def test_selectors(self):
        page = parse('<html><body data-x=one><div class="a b"><p id="q">t</p></div></body></html>')
        element = next(e for e in page if e.tag == "p")
        for selector, right in (("p", True), ("div p", True), ("div>p", True), ("body > p", False), (".a.b #q", True),
                                (".c p", False), ("[data-x=one] p", True), ("[data-x=two] p", False),
                                ("p:not([class])", True), (":root p", True)):
            self.assertEqual(Selector(selector).matches(element), right, selector)
        self.assertLess(Selector("div p").weight, Selector(".a p").weight)
        for selector in ("p:hover", "p::before", "a ~ p", "a + p"):
            self.assertRaises(ValueError, Selector, selector)

    def test_media(self):
        for media, right in (("screen", True), ("print", False), ("screen and (min-width:60em)", True),
                             ("screen and (max-width:44.9375em)", False), ("(prefers-color-scheme:dark)", False)):
            self.assertEqual(applies(media), right, media)

    def test_order_of_the_navigation(self):
        index = "# I\n## I want to\n| a | [b](b.md), `packages/README.md` |\n| b | [a](a.md#x), [b](b.md) |\n"
        home = '<html><a class="md-nav__link" href="docs/{}.html">x</a><a class="md-nav__link" href="packages/index.html">x</a>' \
               '<a class="md-nav__link" href="docs/{}.html">x</a></html>'
        self.assertEqual(list(order_faults(index, parse(home.format("b", "a")))), [])
        self.assertEqual(len(list(order_faults(index, parse(home.format("a", "b"))))), 1)
        self.assertEqual(len(list(order_faults(index, parse(home.format("b", "c"))))), 1)
