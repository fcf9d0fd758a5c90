#!/usr/bin/env python3
"""Call tools of the reference servers through glossator: checks.py GLOSSATOR"""

import json
import sys
import urllib.error
import urllib.request

import verdict
from verdict import equal

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "mcp-servers", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
base = sys.argv[1]


def http(path, body=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data=data, headers=headers or {})
    if data is not None:
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


def rest(tool, **arguments):
    return json.loads(http(f"/tools/{tool}", arguments))


def mcp(method, params, modern, token=None):
    """All messages that come: the last is the answer."""
    headers = {"Accept": "application/json, text/event-stream"}
    meta = {} if token is None else {"progressToken": token}
    if modern:
        meta = {**META, **meta}
        headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
    params = {**params, "_meta": meta} if meta else params
    text = http("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers)
    if text.startswith("{"):
        return [json.loads(text)]
    return [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:") and len(line) > 6]


listed = {tool["name"]: tool for tool in json.loads(http("/tools"))}
for modern in (True, False):
    tools = mcp("tools/list", {}, modern)[-1]["result"]["tools"]
    equal(f"both faces list the same, modern: {modern}", sorted(listed), sorted(tool["name"] for tool in tools))
equal("a prefix", True, "e_echo" in listed and "echo" not in listed)
equal("what is excepted is not there", [], [name for name in listed if "toggle" in name])
equal("only what is said", [], [name for name in listed if name.startswith("files_") and "write" in name])
equal("a description of our own", "A text file.", listed["files_read_text_file"]["description"])
equal("annotations stay", True, listed["files_read_text_file"]["annotations"]["readOnlyHint"])
equal("an output schema stays", True, "outputSchema" in listed["read_graph"])
equal("a tool of a task only is left out", False, "e_simulate-research-query" in listed)
equal("`tools: off` lists none", [], [name for name in listed if "convert_time" in name])

equal("a text over HTTP", "Echo: hi", rest("e_echo", message="hi")["content"][0]["text"])
sums = rest("e_get-sum", a=2, b=3)["content"][0]["text"]
equal("numbers over HTTP", True, "5" in sums)
image = [block["type"] for block in rest("e_get-tiny-image")["content"]]
equal("an image stays an image", True, "image" in image)
weather = rest("e_get-structured-content", location="New York")
equal("structure stays", json.loads(weather["content"][0]["text"]), weather["structuredContent"])
equal("arguments are checked", True, rest("e_get-sum", a="x", b=3)["isError"])
equal("a file", "hello\n", rest("files_read_text_file", path=f"{sys.argv[2]}/files/a.txt")["structuredContent"]["content"])
refused = rest("files_read_text_file", path="/etc/passwd")
# The path is the one that the client sent.
equal("an error stays an error", (True, True), (refused["isError"], "/etc/passwd" in json.dumps(refused)))
rest("create_entities", entities=[{"name": "a", "entityType": "b", "observations": ["c"]}])
equal("a child keeps what it knows", "a", rest("read_graph")["structuredContent"]["entities"][0]["name"])
now = rest("what_time_is_it", zone="Europe/Oslo")
equal("a route of one tool, lifted and reshaped", ["zone", "time"], list(now["structuredContent"]))
wrong = rest("what_time_is_it", zone="Nowhere/Land")
equal("an error of a Python server", True, wrong["isError"])
call = {"name": "e_trigger-long-running-operation", "arguments": {"duration": 1, "steps": 4}}
for modern in (True, False):
    messages = mcp("tools/call", call, modern, token="t")
    told = [message["params"]["progress"] for message in messages if "method" in message]
    equal(f"progress goes on, modern: {modern}", (True, False), (len(told) > 1, messages[-1]["result"]["isError"]))
verdict.end()
