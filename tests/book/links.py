"""Checks the links of a built book: `links.py HTML REPOSITORY`.

A link leads to a file of the book and to an anchor on it. One to a file that is no page, such as a source, may
lead to the repository instead, where the pages are read as well. Every page is in the summary.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.anchors = [], set()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.update(value for value in (attrs.get("id"), attrs.get("name")) if value)
        link = attrs.get("href") if tag in ("a", "link") else attrs.get("src")
        if link:
            self.links.append(link)


def main(book, repository):
    pages = {}
    for path in sorted(book.rglob("*.html")):
        pages[path] = page = Page()
        page.feed(path.read_text(encoding="utf-8"))
    checked, broken = 0, []
    for path, page in pages.items():
        # What these two have is on the other pages, too.
        if path.name in ("print.html", "toc.html", "404.html"):
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            checked += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir() and (target / "README.html").exists():
                target = target / "README.html"
            if target in pages:
                if parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
                    broken.append(f"{path.relative_to(book)}: no anchor {link}")
            elif not target.exists() and not (
                target.is_relative_to(book) and (repository / target.relative_to(book)).exists()
            ):
                broken.append(f"{path.relative_to(book)}: {link}")
    for path in sorted(book.rglob("*.md")):
        if path.name not in ("SUMMARY.md", "SKILL.md") and path.with_suffix(".html") not in pages:
            broken.append(f"SUMMARY.md: nothing leads to {path.relative_to(book)}")
    models = book / "config/book/llms.txt"
    for link in re.findall(r"\]\(([^)]+)\)", models.read_text(encoding="utf-8")):
        checked += 1
        if not (models.parent / link).resolve().exists():
            broken.append(f"llms.txt: {link}")
    if broken:
        sys.exit("links that lead nowhere:\n" + "\n".join(broken))
    if len(pages) < 50 or checked < 1000:
        sys.exit(f"only {len(pages)} pages and {checked} links were found")
    print(f"{len(pages)} pages, {checked} links")
    print("1 passed, 0 failed")


main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
