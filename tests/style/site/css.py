# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of style sheets, and which of them hold for an element, in a window of 1280 pixels in which nothing is pointed at.
Selectors that depend on siblings, states or pseudo-elements hold for none."""
import re

WIDTH_EM = 80
PART = re.compile(r"(?P<tag>\*|[a-zA-Z][\w-]*)|\.(?P<cls>(?:[\w-]|\\.)+)|#(?P<id>[\w-]+)"
                  r"|\[(?P<attr>[\w-]+)(?:(?P<op>[~^$*|]?=)[\"']?(?P<value>[^\]\"']*)[\"']?)?\]"
                  r"|:not\((?P<without>[^()]*)\)|(?P<root>:root)")


def split(text, separator):
    """A text at the separators that are in no parentheses or brackets."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == separator and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [part.strip() for part in parts + [text[start:]] if part.strip()]


def blocks(text):
    """What stands before each pair of braces, and in it."""
    at = 0
    while (brace := text.find("{", at)) >= 0:
        depth, end = 1, brace + 1
        while depth > 0 and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield text[at:brace].rsplit(";", 1)[-1].strip(), text[brace + 1:end - 1]
        at = end


def applies(media):
    """Whether a wide screen is meant: each condition of widths holds, and there is no other than `screen`."""
    for query in split(media, ","):
        rest = re.sub(r"\((min|max)-width:\s*([\d.]+)em\)|\bscreen\b|\band\b", "", query).strip()
        widths = re.findall(r"\((min|max)-width:\s*([\d.]+)em\)", query)
        if not rest and all(WIDTH_EM >= float(em) if side == "min" else WIDTH_EM <= float(em) for side, em in widths):
            return True
    return False


class Compound:
    """What one element of a selector must be."""

    def __init__(self, text):
        self.tag, self.classes, self.id, self.attributes, self.without, self.root, at = "", set(), "", [], [], False, 0
        while at < len(text):
            match = PART.match(text, at)
            if not match:
                raise ValueError(text)
            at = match.end()
            if match["tag"] and match["tag"] != "*":
                self.tag = match["tag"].lower()
            elif match["cls"]:
                self.classes.add(match["cls"].replace("\\", ""))
            elif match["id"]:
                self.id = match["id"]
            elif match["attr"]:
                self.attributes.append((match["attr"], match["op"], match["value"]))
            elif match["without"]:
                self.without.append(Compound(match["without"]))
            self.root |= bool(match["root"])

    def matches(self, element):
        if self.root and element.tag != "html" or self.tag and self.tag != element.tag or not self.classes <= element.classes:
            return False
        if self.id and element.attributes.get("id") != self.id:
            return False
        for name, operator, value in self.attributes:
            have = element.attributes.get(name)
            if have is None or not {None: True, "=": have == value, "~=": value in have.split(), "^=": have.startswith(value or ""),
                                    "$=": have.endswith(value or ""), "*=": (value or "") in have,
                                    "|=": have == value or have.startswith(f"{value}-")}[operator]:
                return False
        return not any(each.matches(element) for each in self.without)

    def weight(self):
        inner = [each.weight() for each in self.without]
        return (bool(self.id) + sum(w[0] for w in inner),
                len(self.classes) + len(self.attributes) + self.root + sum(w[1] for w in inner),
                bool(self.tag) + sum(w[2] for w in inner))


class Selector:
    """Compounds and the combinators between them, ' ' or '>'. Raises ValueError for other selectors."""

    def __init__(self, text):
        words = re.findall(r"\s*>\s*|\s+|(?:\[[^\]]*\]|\([^()]*\)|[^\s>\[(])+", text.strip())
        self.compounds = [Compound(word) for word in words[::2]]
        self.between = [word.strip() or " " for word in words[1::2]]
        self.weight = tuple(map(sum, zip(*(each.weight() for each in self.compounds))))

    def attributes(self):
        compounds = [inner for each in self.compounds for inner in [each, *each.without]]
        return {name for each in compounds for name, *_ in each.attributes + [("id",)] * bool(each.id)}

    def matches(self, element, last=None):
        last = len(self.compounds) - 1 if last is None else last
        if not self.compounds[last].matches(element):
            return False
        if last == 0:
            return True
        above = element.parent
        while above is not None:
            if self.matches(above, last - 1):
                return True
            above = above.parent if self.between[last - 1] == " " else None
        return False


class Sheet:
    """The declarations of the properties that `wanted` accepts, of style sheets in their order."""

    def __init__(self, texts, wanted):
        self.rules, self.wanted, self.count = {}, wanted, 0
        self.attributes = {"class"}  # on which selectors depend
        for text in texts:
            self._read(re.sub(r"/\*.*?\*/", "", text, flags=re.S))

    def _read(self, text):
        for head, body in blocks(text):
            if head.startswith("@media"):
                if applies(head[len("@media"):]):
                    self._read(body)
            elif not head.startswith("@"):
                self._add(head, body)

    def _add(self, head, body):
        declarations = []
        for declaration in split(body, ";"):
            name, _, value = declaration.partition(":")
            if self.wanted(name.strip()):
                strong = value.endswith("!important")
                declarations.append((name.strip(), value.removesuffix("!important").strip(), strong))
        for text in split(head, ",") if declarations else []:
            try:
                selector = Selector(text)
            except ValueError:
                continue
            self.count += 1
            self.attributes |= selector.attributes()
            last = selector.compounds[-1]
            key = min(last.classes, default="") and "." + min(last.classes) or last.tag or "*"
            self.rules.setdefault(key, []).append((selector, self.count, declarations))

    def declared(self, element):
        """Property and value of what is declared for an element; the strongest declaration of each wins."""
        found = {}
        for key in ["*", element.tag] + ["." + name for name in element.classes]:
            for selector, order, declarations in self.rules.get(key, []):
                if selector.matches(element):
                    for place, (name, value, strong) in enumerate(declarations):
                        rank = (strong, selector.weight, order, place)
                        if name not in found or found[name][0] < rank:
                            found[name] = (rank, value)
        return {name: value for name, (_, value) in found.items()}
