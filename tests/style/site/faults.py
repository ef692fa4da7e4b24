# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""usage: faults.py ROOT SITE: what is wrong with a built site: headings, pictures without a text, contrast, links to nothing,
resources of a network, Markdown that became no table or list, and a navigation in another order than docs/index.md. Exit
code 1: there is a fault."""
import os
import posixpath
import re
import sys
from urllib.parse import unquote

from contrast import Contrast
from page import parse

LOADS = {"script": "src", "img": "src", "iframe": "src", "embed": "src", "source": "src", "video": "src", "audio": "src",
         "object": "data", "link": "href", "input": "src", "track": "src"}
NETWORK = re.compile(r"^([a-z]+:)?//", re.I)
ELSEWHERE = re.compile(r"^(https?:|mailto:|data:|chrome:|javascript:|//)", re.I)


class Site:
    """The files of a folder; a fault is 'page:line: message'."""

    def __init__(self, folder):
        self.folder, self.contrasts = folder, {}
        self.files = {posixpath.normpath(os.path.relpath(os.path.join(where, name), folder))
                      for where, _, names in os.walk(folder) for name in names}
        self.pages = {name: parse(self.read(name)) for name in sorted(self.files) if name.endswith(".html")}
        self.anchors = {name: {element.attributes[key] for element in page for key in ("id", "name") if key in element.attributes}
                        for name, page in self.pages.items()}

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def faults(self):
        if not self.pages:
            yield f"{self.folder}:1: has no page"
        for name, page in self.pages.items():
            for check in (self.headings, self.texts, self.links, self.contrast):
                for line, message in check(name, page):
                    yield f"{name}:{line}: {message}"
        for name in sorted(self.files):
            if name.endswith(".css"):
                for address in re.findall(r"(?:url\(|@import\s+)[\"']?([^\"')\s;]+)", self.read(name)):
                    if NETWORK.match(address) or not ELSEWHERE.match(address) and not self.leads(name, address):
                        yield f"{name}:1: loads '{address}'"

    def headings(self, _, page):
        before = 0
        headings = [(int(element.tag[1]), element) for element in page if re.fullmatch("h[1-6]", element.tag)]
        if (count := sum(level == 1 for level, _ in headings)) != 1:
            yield 1, f"has {count} headings of level 1, not one"
        for level, element in headings:
            if level > before + 1:
                yield element.line, f"heading '{element.text}' of level {level} follows one of level {before}"
            before = level

    def texts(self, _, page):
        for element in page:
            if element.tag == "img" and not element.attributes.get("alt", "").strip():
                yield element.line, f"the picture '{element.attributes.get('src')}' has no alternative text"
            if element.tag == "p" and re.search(r"^(\||[-*] |\d+\. |```|#+ )", element.whole_text(), re.M):
                yield element.line, (f"'{element.whole_text()[:40]}' became no table, list, block or heading: "
                                     "an empty line before it, lists in lists by four blanks")

    def leads(self, page, address):
        """Whether an address leads to a file of the site, from a page or style sheet."""
        path = unquote(address.partition("#")[0].partition("?")[0])
        return not path or posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) in self.files

    def links(self, name, page):
        for element in page:
            loaded = element.attributes.get(LOADS.get(element.tag, ""))
            if loaded is not None and NETWORK.match(loaded):
                yield element.line, f"<{element.tag}> loads '{loaded}' from a network"
            style = element.attributes.get("style", "") + (element.text if element.tag == "style" else "")
            for address in re.findall(r"(?:url\(|@import\s+)[\"']?([^\"')\s;]+)", style):
                if NETWORK.match(address):
                    yield element.line, f"a style loads '{address}' from a network"
            address = element.attributes.get("href") if element.tag == "a" else loaded
            if address is None or ELSEWHERE.match(address):
                continue
            anchor = unquote(address.partition("#")[2])
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(address.partition("#")[0]))) \
                if address.partition("#")[0] else name
            if not self.leads(name, address):
                yield element.line, f"'{address}' leads to no file"
            elif anchor and path in self.anchors and anchor not in self.anchors[path]:
                yield element.line, f"'{address}' leads to no anchor of {path}"

    def contrast(self, name, page):
        sheets = tuple(posixpath.normpath(posixpath.join(posixpath.dirname(name), element.attributes["href"])) for element in page
                       if element.tag == "link" and element.attributes.get("rel") == "stylesheet")
        sheets = tuple(sheet for sheet in sheets if sheet in self.files)
        inside = tuple(element.text for element in page if element.tag == "style")
        if (sheets, inside) not in self.contrasts:
            self.contrasts[(sheets, inside)] = Contrast([self.read(sheet) for sheet in sheets] + list(inside))
        yield from self.contrasts[(sheets, inside)].faults(page)


def order_faults(index, home):
    """Pages that docs/index.md's table names, in the order of the navigation of the page `home`, and as the table has them."""
    table = index[index.index("I want to"):]
    wanted = list(dict.fromkeys(re.findall(r"[(`]([a-z0-9_/]+/README|[a-z0-9_]+)\.md", table)))
    shown = []
    for element in home:
        if element.tag == "a" and "md-nav__link" in element.classes:
            path = element.attributes.get("href", "").partition("#")[0].removesuffix(".html")
            shown.append(re.sub("/index$", "/README", path) if path.startswith("packages/") else path.removeprefix("docs/"))
    shown = [path for path in dict.fromkeys(shown) if path in wanted]
    if shown != wanted:
        yield f"docs/mkdocs.yml:1: the navigation has the pages {', '.join(shown)}; docs/index.md has {', '.join(wanted)}"


def main(root, folder):
    site = Site(folder)
    found = list(site.faults())
    with open(os.path.join(root, "docs", "index.md"), encoding="utf-8") as file:
        found += order_faults(file.read(), site.pages["index.html"])
    print("\n".join(found) or f"{len(site.pages)} pages are good")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
