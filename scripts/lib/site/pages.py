# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs (docs/mkdocs.yml): the pages of the navigation and of docs/, and the files that they link to, at their
places in the repository. A link to a folder leads to a page that lists the folder's files."""
import os
import posixpath
import re

from mkdocs.structure.files import File, InclusionLevel

LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")


def navigated(entries):
    """The pages of a navigation, in its order."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, list):
            yield from navigated(entry)
        else:
            yield from navigated(entry.values())


def linked(repo, page):
    """What a page links to inside of the repository: paths from its root; of a folder with a slash at the end."""
    with open(os.path.join(repo, page), encoding="utf-8") as file:
        for match in LINK.finditer(file.read()):
            target = match[1]
            if ":" not in target:
                path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
                yield path + "/" if target.endswith("/") else path


def listing(repo, folder):
    """A page for a folder, and the files that it links to. Folders in the folder are named only."""
    names = sorted(name for name in os.listdir(os.path.join(repo, folder)) if not name.startswith("."))
    folders = {name for name in names if os.path.isdir(os.path.join(repo, folder, name))}
    lines = [f"- `{name}/`" if name in folders else f"- [{name}]({name})" for name in names]
    return "\n".join([f"# {folder}", "", *lines, ""]), [name for name in names if name not in folders]


def on_files(files, config):
    repo = os.path.dirname(os.path.dirname(os.path.abspath(config.config_file_path)))
    added = set()

    def add(path, **source):
        if path not in added:
            added.add(path)
            files.append(File.generated(config, path, **source))

    def add_file(path):
        if os.path.isfile(os.path.join(repo, path)):  # MkDocs itself warns of a link to nothing
            add(path, abs_src_path=os.path.join(repo, path))

    # MkDocs warns of a page that the navigation forgets.
    pages = sorted("docs/" + name for name in os.listdir(os.path.join(repo, "docs")) if name.endswith(".md"))
    for page in [*navigated(config.nav), *pages]:
        if not os.path.isfile(os.path.join(repo, page)):
            continue
        add_file(page)
        for target in linked(repo, page):
            if not target.endswith("/"):
                add_file(target)
            elif os.path.isdir(os.path.join(repo, target)):
                text, names = listing(repo, target)
                add(target + "index.md", content=text, inclusion=InclusionLevel.NOT_IN_NAV)
                for name in names:
                    add_file(target + name)
    return files


def on_page_markdown(markdown, page, config, files):
    """A link to a folder becomes one to the page that lists the folder."""
    return re.sub(r"\]\(((?:[^):#\s]+/)+)\)", r"](\1index.md)", markdown)


def on_post_build(config):
    """Takes away what needs the address of a server: the page for errors, and the map for search engines."""
    for name in ("404.html", "sitemap.xml", "sitemap.xml.gz"):
        if os.path.exists(path := os.path.join(config.site_dir, name)):
            os.remove(path)
