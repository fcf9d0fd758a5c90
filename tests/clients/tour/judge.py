#!/usr/bin/env python3
"""Judge what a client saw on its tour: judge.py FILE VERSION."""

import json
import sys

path, version = sys.argv[1:]
try:
    seen = json.load(open(path))
except ValueError:
    print(f"  FAILED  the client came to the end of its tour: {open(path).read()[:300] or 'it said nothing'}")
    sys.exit(1)

wanted = {
    "version": version,
    "prompts": ["plan_day"],
    "resources": ["motd://today"],
    "templates": ["weather://stations/{city}"],
    "completed": [["tromsø"], ["bergen"]],
    "asked": ["Who greets Grace?"],
    "greeting": "Hello, Grace! Yours, Ada.",
}
broken = 0


def judge(what, good, found):
    global broken
    broken += not good
    print(f"  passed  {what}" if good else f"  FAILED  {what}: {found}")


for name, value in wanted.items():
    judge(f"{name} as declared", seen.get(name) == value, f"expected {value}, found {seen.get(name)}")
texts = [content.get("text", "") for content in seen["prompt"]]
judge("a prompt with a report in it", texts[0] == "A day in oslo, please." and texts[1].startswith("Station: oslo\n"), texts)
# It has a code of its own in the older revisions, which one SDK takes for the one of the newer.
codes = [-32602] if version == "2026-07-28" else [-32002, -32602]
judge("what is not there is not found", seen["missing"] in codes, seen["missing"])
contents = seen["read"]
judge("one document is read", len(contents) == 1 and contents[0]["uri"] == "weather://stations/bergen", contents)
judge("... as the station told it", contents[0].get("text", "").startswith("Station: bergen\n"), contents)
judge("... of the declared type", contents[0].get("mimeType") == "text/plain", contents)
sys.exit(1 if broken else 0)
