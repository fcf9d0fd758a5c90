#!/usr/bin/env python3
"""Judge how a client got its tokens, and what it saw with them: judge.py FILE VERSION URL ISSUER TOKENS.

TOKENS: how many the client is to get: `one`, `two` where it steps up, or `three` where the second one ends, too.
"""

import json
import sys

import verdict
from verdict import equal, report

path, version, url, issuer, tokens = sys.argv[1:]
try:
    seen = json.load(open(path))
except ValueError:
    report("the client came to its end", False, open(path).read()[:300] or "it said nothing")
    verdict.end()

steps_up, lasts = tokens != "one", tokens != "three"
origin = url.removesuffix("/mcp")
metadata = f"{origin}/.well-known/oauth-protected-resource/mcp"
wire = seen["wire"]
equal("the revision", version, seen["version"])

# -- The first token ---------------------------------------------------------------
first = wire[0]
equal("who shows nothing is turned away", ["POST", url, 401], first[:3])
equal("... with what to ask for, and where that is said", f'Bearer scope="weather.read", resource_metadata="{metadata}"', first[3])
equal("... and is told it in one step", ["GET", metadata, 200, ""], wire[1])
taken = [step[1] for step in wire[2:] if step[1].startswith(issuer) and step[2] in (200, 201)]
equal("the issuer tells of itself, registers the client and gives a token", 3, len(taken[:3]))
report("... in that order", "/.well-known/" in taken[0] and taken[1].endswith("/reg") and taken[2].endswith("/token"), taken)
asked = seen["asked"][0]
equal("the token was asked for this server", url, asked.get("resource"))
equal("... for what was wanted and no more", {"weather.read"}, set(asked["scope"].split()) - {"offline_access"})
equal("... with a proof of who comes for it", "S256", asked.get("code_challenge_method"))
equal("... and is for this server", url, seen["granted"][0]["aud"])
equal("the client is shown what it may call", ["get_weather"], seen["before"])
report("... and calls it", "oslo" in seen["read"], seen["read"])

# -- And the second ----------------------------------------------------------------
refused = [step for step in wire if step[2] in (401, 403)]
if steps_up:
    equal("it is refused once more, for want of a scope", [401, 403], [step[2] for step in refused][:2])
    challenge = refused[1][3]
    for part in ['error="insufficient_scope"', 'scope="weather.read weather.write"', f'resource_metadata="{metadata}"']:
        report(f"... with `{part}`", part in challenge, challenge)
    asked_anew = seen["asked"][2:]
    if lasts:
        equal("a person is asked twice, and not again", [], asked_anew)
    wanted = set(seen["asked"][1]["scope"].split()) - {"offline_access"}
    equal("... for both scopes", {"weather.read", "weather.write"}, wanted)
    equal("what needs more is called", "This is a simple text response for testing.", seen["written"].strip())
    equal("the list has it now", ["get_weather", "set_motto"], seen["after"])
    report("what the client could do before it still can", "bergen" in seen["read_again"], seen["read_again"])
    if lasts:
        equal("nothing else is refused", 2, len(refused))
    else:
        ended = [step[3] for step in refused[2:]]
        report("what is refused after that is a token that has ended", all("expired" in why for why in ended), ended)
        # A client takes another by itself as soon as its own clock says so. Where the server's was first, the SDKs ask a
        # person anew, for what the refusal named.
        report("a person is asked once more at most, by a client that was refused so", len(asked_anew) <= min(1, len(ended)), asked_anew)
        expected = seen["before"] if asked_anew else seen["after"]
        equal("... and it goes on with another, which shows what was asked for", expected, seen.get("later"))
        report("... which it was given", len(seen["granted"]) >= 3, seen["granted"])
        if version != "2026-07-28":
            opened = [step for step in wire if step[:3] == ["GET", url, 200]]
            report("the stream of its session ended with the token, and is open again", len(opened) >= 2, wire)
else:
    equal("nothing else is refused", [401], [step[2] for step in refused])
verdict.end()
