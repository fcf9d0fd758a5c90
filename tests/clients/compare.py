#!/usr/bin/env python3
"""Judge what the faces answered.

compare.py rest GLOSSATOR CASES REST_FILE          asks over REST, judges by the cases, keeps the answers
compare.py client CASES REST_FILE CLIENT_FILE VERSION   judges a client's outcomes: as over REST, to the letter
"""

import json
import sys
import urllib.error
import urllib.parse
import urllib.request

import verdict
from verdict import report


def problem(case, result):
    """Why `result` is not what `case` asks for; None when it is."""
    error = "error" in case or "error_names" in case
    content = result.get("content")
    if not content:
        return "content is empty"
    text = " ".join(block.get("text", "") for block in content)
    whole = json.dumps(result)
    if bool(result.get("isError")) != error:
        return f"isError is {result.get('isError')!r}: {text}"
    if error and "structuredContent" in result:
        return "a tool error with structuredContent"
    if "error" in case and case["error"] != text:
        return f"expected the error `{case['error']}`, found `{text}`"
    for word in case.get("error_names", []):
        if word not in text:
            return f"the error does not name `{word}`: {text}"
    for word in case.get("never", []):
        if word in whole:
            return f"`{word}` reached the client"
    for word in case.get("text_has", []):
        if word not in text:
            return f"no `{word}` in the text `{text}`"
    if "structured" in case and not same(case["structured"], result.get("structuredContent")):
        return f"expected {case['structured']}, found {result.get('structuredContent')}"
    if "block" in case and not any(b.get("type") == case["block"] and b.get("data") and b.get("mimeType") for b in content):
        return f"no {case['block']} block"
    if "echo" in case:
        heard, asked = result.get("structuredContent") or {}, case["echo"]
        path, _, query = heard.get("target", "").partition("?")
        if urllib.parse.unquote(path) != asked["path"] or path.count("/") != 2:
            return f"the path came as `{path}`"
        if urllib.parse.parse_qsl(query, keep_blank_values=True) != [("q", asked["q"])]:
            return f"the query came as `{query}`"
        if json.loads(heard["body"]) != asked["body"] or heard["headers"].get("x-what") != asked["x-what"]:
            return f"body `{heard['body']}`, header `{heard['headers'].get('x-what')}`"
    return None


def same(one, other):
    """Equal as JSON numbers are for JavaScript, which knows only doubles."""
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return float(one) == float(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def without_noise(result):
    """The result without what a call has of its own (ids, server's name)."""
    kept = {k: v for k, v in result.items() if k in ("content", "structuredContent", "isError")}
    kept["isError"] = bool(kept.get("isError"))
    text = json.dumps(kept)
    # The echo tells which headers came, a trace among them: not two calls alike.
    kept = json.loads(text)
    structured = kept.get("structuredContent")
    if isinstance(structured, dict) and "headers" in structured:
        del kept["structuredContent"]
        kept["content"] = [b for b in kept["content"] if b.get("type") != "text"]
    return kept


def ask(base, case):
    url = f"{base}/tools/{case['tool']}" if case["tool"] != "get_weather" else f"{base}/weather"
    body = json.dumps(case["arguments"]).encode()
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def over_rest(base, cases_path, keep):
    cases = json.load(open(cases_path))
    answers = []
    for case in cases:
        status, text = ask(base, case)
        try:
            result = json.loads(text)
        except ValueError:
            result = {"not JSON": text}
        answers.append(result)
        if case["status"] != status:
            why = f"expected HTTP {case['status']}, found {status}: {text[:200]}"
        elif "rpc_error" in case:
            why = None
        else:
            why = problem(case, result)
        report(f"REST: {case['case']}", why is None, why)
    raw = ask(base, next(c for c in cases if c["tool"] == "get_record"))[1]
    report("REST: numbers keep their text", '12345678901234567890' in raw and '"pressure":1.0' in raw.replace(": ", ":"), raw)
    json.dump(answers, open(keep, "w"))


def over_mcp(cases_path, rest_path, client_path, version):
    cases, rest = json.load(open(cases_path)), json.load(open(rest_path))
    try:
        said = json.load(open(client_path))
    except ValueError:
        report("the client ran to its end", False, open(client_path).read()[:300] or "it said nothing")
        return
    report(f"negotiated {version}", said["version"] == version, said["version"])
    # A client that insists on a revision asks nothing first, and may never hear.
    report("the server says who it is", said["server"] in ("glossator", None), said["server"])
    names = [tool["name"] for tool in said["tools"]]
    wanted = list(dict.fromkeys(c["tool"] for c in cases if "rpc_error" not in c))
    report("lists every tool", sorted(names) == sorted(wanted), names)
    for case, over_http, outcome in zip(cases, rest, said["outcomes"]):
        if "rpc_error" in case:
            why = None if outcome.get("rpc_error") == case["rpc_error"] else f"expected {case['rpc_error']}, found {outcome}"
        elif "broke" in outcome or "rpc_error" in outcome:
            why = str(outcome)
        else:
            why = problem(case, outcome)
            if why is None and not same(without_noise(over_http), without_noise(outcome)):
                why = f"REST said {without_noise(over_http)}, this client {without_noise(outcome)}"
        report(case["case"], why is None, why)


def main():
    what, *rest_of = sys.argv[1:]
    {"rest": over_rest, "client": over_mcp}[what](*rest_of)
    verdict.end()


if __name__ == "__main__":
    main()
