#!/usr/bin/env python3
"""Builds the site of the pages in docs/ with mdBook: target/site/index.html, also searchable when opened as a file.

The chapters are the pages in the order in which docs/README.md links to them. Pages of the repository's root come last.
A file outside of docs/ that a page links to is copied beside the pages as text, so that no link leads out of the site.

Usage: scripts/site.py [--mdbook PROGRAM] [--out DIRECTORY]
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
ROOT_PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)#\s]*)(#[^)\s]*)?\)")

BOOK = """\
[book]
title = "wakepath"
description = "What saving power costs I/O, which mechanism costs it, and which setting is best"
language = "en"
src = "src"

[build]
create-missing = false

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
no-section-label = true
input-404 = ""
hash-files = false
additional-css = ["site.css"]
additional-js = ["site.js"]

[output.html.print]
enable = false

[output.html.fold]
enable = true
level = 1

[output.html.playground]
copyable = true

[output.html.search]
limit-results = 20
teaser-word-count = 20
use-boolean-and = false
boost-title = 8
boost-hierarchy = 1
boost-paragraph = 2
expand = true
heading-split-level = 3

# The index has every question in a few words; the pages of the repository and the help of all commands have a little
# of everything. They would hide the page that answers.
[output.html.search.chapter]
"README.md" = { enable = false }
"project" = { enable = false }
"background/decisions" = { enable = false }
"reference/recipes" = { enable = false }
"reference/commands.md" = { enable = false }
"""

# Long names fold, so that only tables and code blocks scroll, each by itself.
STYLE = """\
.content main { overflow-wrap: anywhere; }
.content main :not(pre) > code { white-space: normal; overflow-wrap: anywhere; }
.content main td, .content main th { overflow-wrap: normal; }
.content main .table-wrapper, .content main pre > code { overflow-x: auto; }
.content main img { max-width: 100%; height: auto; }
.content main thead a:link { color: inherit; text-decoration: underline; }
"""

# What scrolls by itself can be reached by the keyboard. The switch of the table of contents has the role of a button.
SCRIPT = """\
for (const part of document.querySelectorAll('.content pre > code, .content .table-wrapper')) part.tabIndex = 0;
document.getElementById('mdbook-sidebar-toggle').setAttribute('role', 'button');
"""


class Staging:
    """The pages as mdBook gets them."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.pages = {page: self.place(page) for page in pages()}

    @staticmethod
    def place(page: Path) -> Path:
        """Where a page goes, relative to the site's sources."""
        if page.is_relative_to(DOCS):
            return page.relative_to(DOCS)
        return Path("project") / page.name

    def write(self) -> None:
        """Write every page with its links turned to places within the site."""
        for page, place in self.pages.items():
            target = self.source / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.with_inner_links(page, place))

    def with_inner_links(self, page: Path, place: Path) -> str:
        """Give the text of a page whose links stay within the site; code blocks are left alone."""
        parts = re.split(r"(^```.*?^```$)", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for index in range(0, len(parts), 2):
            parts[index] = LINK.sub(lambda found: self.inner_link(found, page, place), parts[index])
        return "".join(parts)

    def inner_link(self, found: "re.Match[str]", page: Path, place: Path) -> str:
        """Turn one link of a page to the place of what it leads to."""
        before, file, section = found[1], found[2], found[3] or ""
        if not file or "://" in file:
            return found[0]
        target = Path(os.path.normpath(page.parent / file))
        if not target.exists():
            sys.exit(f"site: {page.relative_to(ROOT)} links to {file}, which is not there")
        if target in self.pages:
            inner = self.pages[target]
        elif target.is_dir():
            # A folder has no page: only its name stays.
            return found[0].split("](")[0].lstrip("![")
        else:
            inner = self.copied(target)
        return f"{before}{os.path.relpath(inner, place.parent)}{section})"

    def copied(self, file: Path) -> Path:
        """Copy a file that is no page: pictures as they are, all else as text that a browser shows."""
        relative = file.relative_to(ROOT)
        is_picture = file.suffix in {".svg", ".png"}
        inner = Path("files") / (relative if is_picture else relative.with_name(relative.name + ".txt"))
        target = self.source / inner
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        return inner

    def summary(self) -> str:
        """The list of chapters: shelves as parts, decisions and recipes below their lists."""
        lines = ["# Summary", "", "[All pages](README.md)", ""]
        shelf = ""
        for page, place in self.pages.items():
            if place == Path("README.md"):
                continue
            name = place.parts[0] if len(place.parts) > 1 else ""
            if name != shelf:
                shelf = name
                lines += ["", f"# {name.capitalize()}", ""]
            is_below = place.parent.name in ("decisions", "recipes") and place.name != "README.md"
            lines.append(f"{'  ' if is_below else ''}- [{title(page)}]({place})")
        return "\n".join(lines) + "\n"


def title(page: Path) -> str:
    """The first heading of a page."""
    for line in page.read_text().splitlines():
        if line.startswith("# "):
            return line.removeprefix("# ").replace("`", "")
    sys.exit(f"site: {page.relative_to(ROOT)} has no heading")


def linked_pages(page: Path) -> list[Path]:
    """The pages of docs/ that a page links to, in its order."""
    found = (Path(os.path.normpath(page.parent / link[2])) for link in LINK.finditer(page.read_text()))
    return [target for target in found if target.suffix == ".md" and target.is_relative_to(DOCS)]


def pages() -> list[Path]:
    """All pages of the site in order; a page of docs/ that the index does not name is an error."""
    index = DOCS / "README.md"
    by_shelf: dict[str, list[Path]] = {"": [index], "guides": [], "reference": [], "background": []}
    lists = [DOCS / "background/decisions/README.md", DOCS / "reference/recipes/README.md"]
    for page in [*linked_pages(index), *(page for below in lists for page in linked_pages(below))]:
        relative = page.relative_to(DOCS)
        shelf = by_shelf[relative.parts[0] if len(relative.parts) > 1 else ""]
        if page not in shelf:
            shelf.append(page)
    ordered = [page for shelf in by_shelf.values() for page in shelf]
    there = {page for page in DOCS.rglob("*.md") if not page.is_relative_to(DOCS / "examples")}
    if missing := sorted(there - set(ordered)):
        sys.exit(f"site: docs/README.md does not name {', '.join(str(page.relative_to(ROOT)) for page in missing)}")
    return ordered + [ROOT / name for name in ROOT_PAGES]


def main() -> None:
    """Stage the pages and let mdBook build them."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--mdbook", default=str(ROOT / ".cache/python/bin/mdbook"))
    arguments.add_argument("--out", type=Path, default=ROOT / "target/site")
    chosen = arguments.parse_args()
    if not shutil.which(chosen.mdbook):
        sys.exit(f"site: no {chosen.mdbook}; scripts/setup-python.sh installs it")
    book = chosen.out.with_name(chosen.out.name + "-sources")
    shutil.rmtree(book, ignore_errors=True)
    source = book / "src"
    source.mkdir(parents=True)
    (book / "book.toml").write_text(BOOK)
    (book / "site.css").write_text(STYLE)
    (book / "site.js").write_text(SCRIPT)
    staging = Staging(source)
    staging.write()
    (source / "SUMMARY.md").write_text(staging.summary())
    shutil.rmtree(chosen.out, ignore_errors=True)
    built = subprocess.run(
        [chosen.mdbook, "build", "--dest-dir", str(chosen.out.resolve()), str(book)],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        sys.exit(f"site: mdbook failed:\n{built.stderr}")
    print(f"{chosen.out / 'index.html'}: {len(staging.pages)} pages")


if __name__ == "__main__":
    main()
