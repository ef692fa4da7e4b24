# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""usage: browser.py SITE: opens each page from disk in Chromium, 1280 and 400 pixels wide: nothing reaches past the window but
what scrolls inside of itself, every picture is drawn, search finds, no error in the console, no request to a network.
Exit code 77: there is no Chromium; with CI=true that is a failure."""
import html
import json
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import chromium  # noqa: E402  its folder is named first

WIDTHS = (1280, 400)
# In each page: waits for it, searches on one page, and sends what is wrong to the frame around it.
PROBE = """<script>
addEventListener("load", async () => {
  const found = [], wide = document.documentElement.clientWidth, name = e => `<${e.tagName.toLowerCase()} class='${e.className}'>`;
  const least = Math.max(document.documentElement.scrollWidth, document.body.scrollWidth);
  if (least > wide) found.push(`the page is ${least} pixels wide in a window of ${wide}`);
  for (const e of document.querySelectorAll(".md-content *")) {
    const inner = e.closest("pre, .md-typeset__scrollwrap, p:has(> img)");
    if ((!inner || inner === e) && e.getClientRects().length && e.getBoundingClientRect().right > wide + 1)
      found.push(`${name(e)} reaches past the window of ${wide}: '${e.textContent.slice(0, 40)}'`);
  }
  for (const e of document.images) if (!e.naturalWidth) found.push(`the picture ${e.getAttribute("src")} is not drawn`);
  if (location.hash === "#search") {
    const input = document.querySelector(".md-search__input"), meta = document.querySelector(".md-search-result__meta");
    input.focus();
    input.value = "tensor";
    input.dispatchEvent(new Event("input", {bubbles: true}));
    input.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
    for (let i = 0; i < 100 && !/[1-9]\\d* matching/.test(meta.textContent); ++i) await new Promise(go => setTimeout(go, 100));
    if (!/[1-9]\\d* matching/.test(meta.textContent)) found.push(`search for 'tensor' says '${meta.textContent.trim()}'`);
  }
  parent.postMessage([location.search, found], "*");
});
</script>"""
FRAME = """<!doctype html><title>waiting</title><body style="margin:0"><script>
const views = VIEWS, found = [];
let next = 0;
const frame = document.createElement("iframe");
frame.style = "border:0;height:900px";
document.body.append(frame);
function go() {
  if (next === views.length) { document.title = "done"; document.body.textContent = JSON.stringify(found); return; }
  frame.style.width = views[next].width + "px";
  frame.src = `${views[next].page}?${next}${views[next].hash}`;
}
onmessage = event => {
  if (event.data[0] !== `?${next}`) return;
  for (const each of event.data[1]) found.push(`${views[next].page}:1: ${each}`);
  ++next;
  go();
};
go();
</script>"""


def pages_below(folder):
    return sorted(os.path.relpath(os.path.join(where, name), folder) for where, _, names in os.walk(folder)
                  for name in names if name.endswith(".html"))


def browse(browser, site, folder):
    """The faults, the lines of the console, and the requests to a network."""
    dom, console, requests, messages = chromium.browse(browser, os.path.join(site, "frame.html"), folder, 1400,
                                                       "--virtual-time-budget=300000", timeout=240)
    body = re.search(r"<title>done</title>.*?<body[^>]*>(.*)</body>", dom, re.S)
    if not body:
        sys.exit(f"the pages did not all load:\n{dom[-500:]}\n{messages[-2000:]}")
    return json.loads(html.unescape(body[1])), console, requests


def faults(browser, site):
    """What is wrong with a site: a list of lines."""
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "site")
        shutil.copytree(site, copy)
        pages = pages_below(copy)
        for page in pages:
            with open(os.path.join(copy, page), encoding="utf-8") as file:
                text = file.read()
            with open(os.path.join(copy, page), "w", encoding="utf-8") as file:
                file.write(text.replace("</body>", PROBE + "</body>"))
        views = [{"page": page, "width": width, "hash": ""} for page in pages for width in WIDTHS]
        views.append({"page": "index.html", "width": WIDTHS[0], "hash": "#search"})
        with open(os.path.join(copy, "frame.html"), "w", encoding="utf-8") as file:
            file.write(FRAME.replace("VIEWS", json.dumps(views)))
        found, console, requests = browse(browser, copy, folder)
    return found + [f"console: {line}" for line in console] + [f"a request to {address}" for address in sorted(requests)]


def main():
    browser = chromium.find()
    if browser is None:
        print("skipped: there is no Chromium: set SHARD8_BROWSER, or install one (Debian: apt-get install chromium)")
        return 1 if os.environ.get("CI") == "true" else 77
    found = faults(browser, os.path.abspath(sys.argv[1]))
    if found:
        print("\n".join(found))
        return 1
    # The same site with planted faults: each is found.
    with tempfile.TemporaryDirectory() as folder:
        site = os.path.join(folder, "site")
        shutil.copytree(sys.argv[1], site)
        for page in pages_below(site):
            if page not in ("index.html", "SECURITY.html"):
                os.remove(os.path.join(site, page))
        os.remove(os.path.join(site, "iframe-worker.js"))
        with open(os.path.join(site, "SECURITY.html"), encoding="utf-8") as file:
            text = file.read()
        with open(os.path.join(site, "SECURITY.html"), "w", encoding="utf-8") as file:
            file.write(text.replace("</h1>", '</h1><div style="width:500px">wide</div><img src="http://127.0.0.1:9/x.png">'
                                    '<script>console.error("a fault")</script>'))
        found = "\n".join(faults(browser, site))
    missed = [words for words in ("SECURITY.html:1: the page is", "reaches past the window of 400: 'wide'", "x.png is not drawn",
                                  "a fault", "a request to http://127.0.0.1:9/x.png", "index.html:1: search for 'tensor'")
              if words not in found]
    print(f"planted faults that were not found: {missed}; found:\n{found}" if missed else "each page fits")
    return bool(missed)


sys.exit(main())
