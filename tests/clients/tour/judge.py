#!/usr/bin/env python3
"""Judge what a client saw on its tour: judge.py FILE VERSION."""

import json
import sys

import verdict
from verdict import report

path, version = sys.argv[1:]
try:
    seen = json.load(open(path))
except ValueError:
    report("the client came to the end of its tour", False, open(path).read()[:300] or "it said nothing")
    verdict.end()

wanted = {
    "version": version,
    "prompts": ["plan_day"],
    "resources": ["motd://today"],
    "templates": ["weather://stations/{city}"],
    "completed": [["tromsø"], ["bergen"]],
    "asked": ["Who greets Grace?"],
    "greeting": "Hello, Grace! Yours, Ada.",
}
for name, value in wanted.items():
    report(f"{name} as declared", seen.get(name) == value, f"expected {value}, found {seen.get(name)}")
texts = [content.get("text", "") for content in seen["prompt"]]
report("a prompt with a report in it", texts[0] == "A day in oslo, please." and texts[1].startswith("Station: oslo\n"), texts)
# It has a code of its own in the older revisions, which one SDK takes for the one of the newer.
codes = [-32602] if version == "2026-07-28" else [-32002, -32602]
report("what is not there is not found", seen["missing"] in codes, seen["missing"])
contents = seen["read"]
report("one document is read", len(contents) == 1 and contents[0]["uri"] == "weather://stations/bergen", contents)
report("... as the station told it", contents[0].get("text", "").startswith("Station: bergen\n"), contents)
report("... of the declared type", contents[0].get("mimeType") == "text/plain", contents)
verdict.end()
