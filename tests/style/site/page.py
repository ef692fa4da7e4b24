# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""A page of HTML as a tree of elements."""
from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Element:
    """An element: its name, attributes, parent and line, and the text that it holds itself, without that of its children."""

    def __init__(self, tag, attributes, parent, line):
        self.tag, self.parent, self.line, self.text, self.children = tag, parent, line, "", []
        self.attributes = {name: value or "" for name, value in attributes}
        self.classes = frozenset(self.attributes.get("class", "").split())

    def __iter__(self):
        """The element and all below it, in the order of the page."""
        yield self
        for child in self.children:
            yield from child

    def whole_text(self):
        return "".join([self.text] + [child.whole_text() for child in self.children])


class _Parser(HTMLParser):
    def __init__(self):
        super().__init__()
        self.root = self.open = Element("", [], None, 1)

    def handle_starttag(self, tag, attrs):
        element = Element(tag, attrs, self.open, self.getpos()[0])
        self.open.children.append(element)
        if tag not in VOID:
            self.open = element

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        element = self.open
        while element.parent is not None and element.tag != tag:
            element = element.parent
        if element.parent is not None:
            self.open = element.parent

    def handle_data(self, data):
        self.open.text += data


def parse(text):
    """The element `html` of a page."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    return next(element for element in parser.root if element.tag == "html")
