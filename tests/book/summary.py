"""Prints a summary of mdBook with its links relative to the repository, which is the root of the book there."""

import posixpath
import re
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
link = re.compile(r"\]\(([^)#]+)\)")
print(link.sub(lambda found: f"]({posixpath.normpath('config/book/' + found[1])})", text), end="")
