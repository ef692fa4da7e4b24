# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Writes one HTML file: pictures as inline SVG, each for a wide and a narrow window, in a light and a dark style. No
script, no other file, no request."""
import re

from study.charts import NARROW, WIDE
from study.quote import html
from study.svg import LETTER

COLORS = """
:root { color-scheme: light dark; --text: #1c2024; --soft: #60666e; --faint: #d9dde2; --axis: #9aa1a9; --back: #fff; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e6e9; --soft: #9aa1a9; --faint: #343a41; --axis: #6b727b;
  --back: #15181b; } }
"""
MARKS = """
svg { font: 12px system-ui, "Segoe UI", "Liberation Sans", sans-serif; }
rect { shape-rendering: crispEdges; } .grid { stroke: var(--faint); } .axis { stroke: var(--axis); } .mark { stroke: var(--text); stroke-dasharray: 3 3; }
.whisker { stroke-width: 1.5; } .hatch { fill: none; stroke: var(--back); stroke-width: 1.6; } .band-line, .tick { stroke: var(--text); stroke-width: 1.5; }
.exposed { stroke: #EE6677; stroke-width: 3; } .join { fill: none; stroke: var(--axis); stroke-width: 1.2; } .label { fill: var(--text); } .name, .value { fill: var(--soft); }
text { paint-order: stroke; stroke: var(--back); stroke-width: 3px; stroke-linejoin: round; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.ideal { fill: none; stroke: var(--axis); stroke-width: 1.5; stroke-dasharray: 5 4; }
"""
STYLE = COLORS + MARKS + """
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.55 system-ui, "Segoe UI", "Liberation Sans",
  sans-serif; }
main { max-width: 808px; margin: 0 auto; padding: 40px 24px 72px; }
h1 { font-size: 26px; font-weight: 600; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 18px; font-weight: 600; margin: 56px 0 2px; }
p { margin: 0 0 14px; max-width: 66ch; }
.soft, figcaption { color: var(--soft); font-size: 14px; }
figure { margin: 0; }
figcaption { margin: 0 0 14px; max-width: 70ch; }
.figures { display: grid; grid-template-columns: repeat(4, 1fr); gap: 1px; margin: 24px 0 0; background: var(--faint);
  border: 1px solid var(--faint); }
.figures div { background: var(--back); padding: 12px 14px; }
.figures b { display: block; font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums; }
.figures span { color: var(--soft); font-size: 13px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 10px; padding: 0; list-style: none; font-size: 13px;
  color: var(--soft); }
.legend i { display: inline-block; width: 11px; height: 11px; margin-right: 6px; border-radius: 2px; }
svg { display: block; max-width: 100%; height: auto; }
.subjects { gap: 6px 22px; margin: 24px 0 0; color: var(--text); } .subjects li { overflow-wrap: anywhere; min-width: 0; }
.subjects svg { display: inline-block; margin-right: 7px; vertical-align: middle; } .subjects span { color: var(--soft); }
.open td:first-child, .open th:first-child { position: sticky; left: 0; background: var(--back); max-width: 240px; overflow: hidden; text-overflow: ellipsis; }
.open { font-size: 13px; } .group td { font-weight: 600; padding-top: 14px; }
#differences th, #differences td { vertical-align: top; white-space: normal; overflow-wrap: anywhere; min-width: 100px; max-width: 200px; }
@media (min-width: 720px) { #differences td:first-child { min-width: 180px; } }
@media (min-width: 860px) { .open .wrap { width: max-content; min-width: 100%; max-width: calc(50vw + 350px); } }
.warnings { margin: 16px 0 0; padding: 8px 14px; border-left: 3px solid #EE6677; list-style: none; font-size: 14px; } .warnings li { overflow-wrap: anywhere; }
.narrow { display: none; }
details { margin: 10px 0 0; font-size: 13px; } summary { color: var(--soft); cursor: pointer; }
.wrap { overflow-x: auto; } table { border-collapse: collapse; margin: 8px 0 0; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 12px 4px 0; text-align: right; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th { font-weight: 500; color: var(--soft); } th:first-child, td:first-child { text-align: left; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; font-size: 14px; margin: 8px 0 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 720px) { main { padding: 24px 16px 48px; } .wide { display: none; } .narrow { display: block; }
  .figures { grid-template-columns: repeat(2, 1fr); } h1 { font-size: 22px; } h2 { margin-top: 44px; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin: 0 0 8px; } }
@media print { main { max-width: none; } details { display: none; } }
"""


MARGIN = 20  # around a picture in a file of its own


def picture(figure):
    """The text of one picture as a file of its own: title, legend and background, too, for a page of any colour."""
    x, y, around, parts = MARGIN, 52, 2 * MARGIN, []
    for name, color in figure.legend:
        wide = 40 + LETTER * len(name)
        if x > MARGIN and x + wide > WIDE:
            x, y = MARGIN, y + 20
        parts.append(f'<rect x="{x:.0f}" y="{y - 10}" width="11" height="11" rx="2" fill="{color}"/>'
                     f'<text class="name" x="{x + 17:.0f}" y="{y}">{html(name)}</text>')
        x += wide
    y += 14 if figure.legend else -8
    inner = figure.draw(WIDE)
    height = float(re.search(r' height="([0-9.]+)"', inner)[1])
    return (f'<svg role="img" aria-label="{html(figure.title)}" viewBox="0 0 {WIDE + around} {y + height + MARGIN:.0f}" '
            f'width="{WIDE + around}" height="{y + height + MARGIN:.0f}" xmlns="http://www.w3.org/2000/svg">'
            f'<style>{COLORS}{MARKS}.title {{ font-size: 16px; font-weight: 600; fill: var(--text); }}</style>'
            f'<rect width="100%" height="100%" style="fill:var(--back)"/>'
            f'<text class="title" x="{MARGIN}" y="28">{html(figure.title)}</text>{"".join(parts)}' +
            inner.replace("<svg ", f'<svg x="{MARGIN}" y="{y}" ', 1) + "</svg>\n")


def table(heads, rows):
    head = "".join(f"<th>{html(h)}</th>" for h in heads)
    begin = lambda row: '<tr class="group">' if len(row) > 1 and not any(row[1:]) else "<tr>"
    body = "".join(begin(row) + "".join(f"<td>{html(str(c))}</td>" for c in row) + "</tr>" for row in rows)
    return f'<div class="wrap"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def swatch(color, dashes, name, kind):
    """An entry of the page's legend: a line as in the pictures, and the name."""
    extra = f";stroke-dasharray:{dashes}" if dashes else ""
    kind = f" <span>{html(kind)}</span>" if kind else ""
    return (f'<svg class="swatch" width="26" height="10" viewBox="0 0 26 10" aria-hidden="true"><path d="M0 5L26 5" '
            f'style="stroke:{color};stroke-width:3.5{extra}"/></svg>{html(name)}{kind}')


def section(figure):
    legend = "".join(f'<li><i style="background:{color}"></i>{html(name)}</li>' for name, color in figure.legend)
    legend = f'<ul class="legend">{legend}</ul>' if legend else ""
    heads, rows = figure.table
    if figure.draw is None:
        note = f'<p class="soft">{html(figure.note)}</p>' if figure.note else ""
        return (f'<section id="{figure.key}"><h2>{html(figure.title)}</h2>{note}'
                f'<div class="open">{table(heads, rows) if rows else ""}</div></section>')
    numbers = f"<details><summary>Numbers</summary>{table(heads, rows)}</details>" if rows else ""
    return (f'<section id="{figure.key}"><h2>{html(figure.title)}</h2><figure>'
            f'<figcaption>{html(figure.note)}</figcaption>{legend}'
            f'<div class="wide">{figure.draw(WIDE)}</div><div class="narrow">{figure.draw(NARROW)}</div></figure>'
            f'{numbers}</section>')


def page(title, subtitle, cards, figures, facts, subjects=(), warnings=()):
    """The text of the page. `cards`: [(value, what)] at the top; `facts`: [(name, value)] at the end; `subjects`: [swatch()], the
    legend of all pictures; `warnings`: texts above the cards."""
    warned = f'<ul class="warnings">{"".join(f"<li>Warning: {html(one)}</li>" for one in warnings)}</ul>' if warnings else ""
    legend = f'<ul class="legend subjects">{"".join(f"<li>{one}</li>" for one in subjects)}</ul>' if subjects else ""
    boxes = "".join(f"<div><b>{html(value)}</b><span>{html(what)}</span></div>" for value, what in cards)
    ends = "".join(f"<dt>{html(name)}</dt><dd>{html(value)}</dd>" for name, value in facts)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
            f'<title>{html(title)}</title>\n<style>{STYLE}</style></head>\n<body><main>\n<h1>{html(title)}</h1>'
            f'<p class="soft">{html(subtitle)}</p>\n{warned}<div class="figures">{boxes}</div>{legend}\n' +
            "\n".join(section(figure) for figure in figures) +
            f'\n<section><h2>What was run</h2><dl>{ends}</dl></section>\n</main></body></html>\n')
