#!/usr/bin/env python3
"""What clients of a real web server get that starts glossator for each request.

checks.py PORT LEGACY      REST, MCP of both eras, errors and the passthrough
"""

import http.client
import json
import sys
import urllib.request

import verdict
from verdict import equal, report

SCRIPT = "/cgi-bin/functions"


def ask(port, method, path, body=None, headers=None, chunked=False):
    """(status, content type, JSON or text)"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    all_headers = {"Content-Type": "application/json", "Host": f"127.0.0.1:{port}", **(headers or {})}
    if chunked:
        body = iter([body[:3].encode(), body[3:].encode()])
    connection.request(method, SCRIPT + path, body, all_headers, encode_chunked=chunked)
    response = connection.getresponse()
    text = response.read().decode()
    kind = response.headers.get("Content-Type", "").split(";")[0]
    connection.close()
    return response.status, kind, json.loads(text) if kind == "application/json" else text


def check_server(port, legacy):
    port = int(port)
    add = json.dumps({"x": 10, "y": 20})
    json_type = "application/json"
    equal("a call", (200, json_type, {"result": 30}), ask(port, "POST", "/Add", add))
    equal("several values", (200, json_type, {"result0": 20, "result1": 10}), ask(port, "POST", "/Swap", add))
    equal("a body in chunks", (200, json_type, {"result": 30}), ask(port, "POST", "/Add", add, chunked=True))
    equal(
        "no such function",
        (404, json_type, {"error": "Function not found: NonExistent"}),
        ask(port, "POST", "/NonExistent", "{}"),
    )
    zero = json.dumps({"x": 1, "y": 0})
    equal("a failure", (500, json_type, {"error": "division by zero"}), ask(port, "POST", "/Divide", zero))
    status, kind, answer = ask(port, "POST", "/Add", '{"x": ')
    equal("no JSON", (400, json_type, "Invalid JSON body"), (status, kind, answer["error"]))
    status, kind, answer = ask(port, "POST", "/Add", add, {"Host": "evil.example.com"})
    equal("another host", (403, json_type, True), (status, kind, "evil.example.com" in answer["error"]))
    status, _, tools = ask(port, "GET", "/root/tools")
    endpoints = {tool["name"]: tool["endpoint"] for tool in tools}
    equal("the manifest", (200, f"{SCRIPT}/functions/Add"), (status, endpoints["functions.Add"]))
    equal("HEAD", (200, json_type, ""), ask_head(port))
    for revision in ["2025-11-25", "2026-07-28"]:
        check_mcp(port, revision)
    check_stream(port, legacy)


def ask_head(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("HEAD", f"{SCRIPT}/root/tools")
    response = connection.getresponse()
    return response.status, response.headers.get("Content-Type"), response.read().decode()


def check_mcp(port, revision):
    params = {"name": "functions.Add", "arguments": {"x": 10, "y": 20}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": revision}
    if revision == "2026-07-28":
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "functions.Add"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    status, _, answer = ask(port, "POST", "/root/mcp", json.dumps(message), headers)
    equal(f"MCP {revision}", (200, {"result": 30}), (status, answer["result"]["structuredContent"]))


def check_stream(port, legacy):
    """A page of which the second part is held back until the first one is here."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", f"{SCRIPT}/root/page")
    response = connection.getresponse()
    equal("the first part comes by itself", b"first\n", response.read(6))
    urllib.request.urlopen(f"{legacy}/go", timeout=20).read()
    equal("and the rest", b"second\n", response.read())


check_server(*sys.argv[1:])
verdict.end()
