#!/usr/bin/env python3
"""Compare what glossator's tools say with what the servers say of themselves.

checks.py nginx|apache|haproxy|node SERVER GLOSSATOR
checks.py gone SERVER GLOSSATOR TOOL
"""

import csv
import datetime
import io
import json
import re
import sys
import time
import urllib.error
import urllib.request

import verdict
from verdict import equal, report

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "real-servers", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def http(url, body=None, headers=None):
    """(status, text) whatever the status."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers or {})
    if data is not None:
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def rest(base, tool):
    status, text = http(f"{base}/tools/{tool}", {})
    return status, json.loads(text)


def mcp(base, method, params, modern):
    headers = {"Accept": "application/json, text/event-stream"}
    if modern:
        params = {**params, "_meta": META}
        headers["MCP-Protocol-Version"] = "2026-07-28"
        headers["Mcp-Method"] = method
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
    else:
        headers["MCP-Protocol-Version"] = "2025-06-18"
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    status, text = http(f"{base}/mcp", body, headers)
    if text.startswith(("event:", "data:", "id:")):
        text = next(line[5:] for line in text.splitlines() if line.startswith("data:") and len(line) > 6)
    return status, json.loads(text)


def call(base, tool, modern):
    status, message = mcp(base, "tools/call", {"name": tool, "arguments": {}}, modern)
    equal(f"{tool} over MCP {'2026-07-28' if modern else '2025-06-18'} is answered with HTTP 200", 200, status)
    return message["result"]


def advertised(base, tool):
    _, message = mcp(base, "tools/list", {}, True)
    return next(t for t in message["result"]["tools"] if t["name"] == tool)


# -- nginx ------------------------------------------------------------------------


def nginx_says(server):
    _, text = http(f"{server}/nginx_status")
    n = [int(x) for x in re.findall(r"\d+", text)]
    names = ["active", "accepts", "handled", "requests", "reading", "writing", "waiting"]
    return dict(zip(names, n))


def nginx(server, base):
    # Its counter of requests includes the one that asks, so it steps by one a call.
    status, first = rest(base, "nginx_status")
    equal("nginx_status over REST is answered with HTTP 200", 200, status)
    equal("... and is no error", False, first.get("isError", False))
    said = nginx_says(server)
    structured = first["structuredContent"]
    equal("... has the fields of the page", sorted(said), sorted(structured))
    report("... all of them integers", all(type(v) is int for v in structured.values()), structured)
    equal("... counted one request less than the page asked right after it", said["requests"] - 1, structured["requests"])
    equal("... and one connection less", said["accepts"] - 1, structured["accepts"])
    equal("... and dropped as many as the page says", said["accepts"] - said["handled"], structured["accepts"] - structured["handled"])
    text = first["content"][0]["text"]
    report("... and says the number in its text", f"{structured['requests']} requests" in text, text)

    for _ in range(5):
        http(f"{server}/")
    modern = call(base, "nginx_status", modern=True)
    equal("five requests later the counter is six on", said["requests"] + 6, modern["structuredContent"]["requests"])
    legacy = call(base, "nginx_status", modern=False)
    equal("the next call, over the older era, counts one more", said["requests"] + 7, legacy["structuredContent"]["requests"])
    after = nginx_says(server)
    equal("and the page itself one more again", said["requests"] + 8, after["requests"])
    equal("glossator keeps its one connection open", 1, after["active"] - 1)

    schema = advertised(base, "nginx_status").get("outputSchema", {})
    equal("outputSchema names the fields", sorted(said), sorted(schema.get("properties", {})))
    equal("... as integers", {"integer"}, {p.get("type") for p in schema.get("properties", {}).values()})
    equal("... and requires them", sorted(said), sorted(schema.get("required", [])))


# -- Apache -----------------------------------------------------------------------


def apache_says(server):
    _, text = http(f"{server}/server-status?auto")
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)


def settled(server):
    """A page whose counter moves by our own looking only: Apache counts a request a moment after its answer."""
    page = apache_says(server)
    for _ in range(40):
        time.sleep(0.05)
        again = apache_says(server)
        if int(again["Total Accesses"]) == int(page["Total Accesses"]) + 1:
            time.sleep(0.1)
            return again
        page = again
    return page


def apache(server, base):
    before = settled(server)
    shown = int(before["Total Accesses"])

    status, first = rest(base, "apache_status")
    equal("apache_status over REST is answered with HTTP 200", 200, status)
    equal("... and is no error", False, first.get("isError", False))
    structured = first["structuredContent"]
    # The page shows the accesses before itself, so ours counts the one that we compare it with.
    equal("... counts the accesses that the page counts", shown + 1, structured["requests"])
    for name, line in {"version": "ServerVersion", "mpm": "ServerMPM"}.items():
        equal(f"... {name} is the page's {line}", before[line], structured[name])
    for name, kind in {
        "uptime_seconds": int, "requests": int, "kilobytes": int, "workers_busy": int, "workers_idle": int, "load": (int, float),
    }.items():
        report(f"... {name} is a number", isinstance(structured.get(name), kind), structured.get(name))
    said = apache_says(server)
    slots = int(said["BusyWorkers"]) + int(said["IdleWorkers"])
    equal("... workers add up to the page's", slots, structured["workers_busy"] + structured["workers_idle"])

    for _ in range(5):
        http(f"{server}/index.txt")
    moved = int(settled(server)["Total Accesses"])
    report("Apache has counted five requests of ours", moved >= shown + 7, moved)
    modern = call(base, "apache_status", modern=True)
    equal("... and so has the tool", moved + 1, modern["structuredContent"]["requests"])
    # Apache leaves the rates out of its first second, and writes `.5` for a half.
    time.sleep(max(0, 2 - int(settled(server)["ServerUptimeSeconds"])))
    _, later = rest(base, "apache_status")
    rate = later["structuredContent"].get("requests_per_second")
    said = float(settled(server)["ReqPerSec"])
    report("the rate is the page's, about", rate is not None and said / 2 < rate < said * 2, f"{rate} against {said}")

    # Letters of the scoreboard, counted by us and by the jq of the route.
    letters = {"idle": "_", "starting": "S", "reading": "R", "sending": "W", "keepalive": "K", "closing": "C", "finishing": "G", "free": "."}
    legacy = call(base, "apache_workers", modern=False)
    _, by_rest = rest(base, "apache_workers")
    board = apache_says(server)["Scoreboard"]
    for result, way in ((legacy, "over the older era"), (by_rest, "over REST")):
        counted = result["structuredContent"]
        equal(f"apache_workers {way} has all its counts", sorted(letters), sorted(counted))
        equal("... that add up to the length of the scoreboard", len(board), sum(counted.values()))
        equal("... with as many free places", board.count("."), counted["free"])
        report("... and sees the worker that answers it", counted["sending"] >= 1, counted)


# -- HAProxy ----------------------------------------------------------------------


def haproxy_says(server):
    _, text = http(f"{server}/stats;csv")
    rows = list(csv.DictReader(io.StringIO(text.removeprefix("# "))))
    return [row for row in rows if row["svname"] not in ("FRONTEND", "BACKEND")]


def haproxy(server, base):
    # The one server that nobody listens at is down after its first check.
    for _ in range(100):
        said = haproxy_says(server)
        if {row["status"] for row in said} == {"UP", "DOWN"}:
            break
        time.sleep(0.1)
    status, first = rest(base, "haproxy_servers")
    equal("haproxy_servers over REST is answered with HTTP 200", 200, status)
    equal("... and is no error", False, first.get("isError", False))
    servers = first["structuredContent"]["servers"]
    equal("... names the servers of the page", [row["svname"] for row in said], [one["name"] for one in servers])
    words = {"UP": "up", "DOWN": "down"}
    equal("... and their states in our words", [words[row["status"]] for row in said], [one["state"] for one in servers])
    equal("... with failed checks as numbers", [int(row["chkfail"]) for row in said], [one["failed_checks"] for one in servers])
    equal("... and tells people which is down", "Down: absent.", first["content"][1]["text"])
    report("... under a table", first["content"][0]["text"].startswith("| backend | name |"), first["content"][0])
    for modern in (True, False):
        result = call(base, "haproxy_servers", modern)
        equal("... the same there", [one["name"] for one in servers], [one["name"] for one in result["structuredContent"]["servers"]])


# -- node_exporter ----------------------------------------------------------------


def node(server, base):
    _, page = http(f"{server}/metrics")
    sample = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    status, first = rest(base, "machine_status")
    equal("machine_status over REST is answered with HTTP 200", 200, status)
    structured = first["structuredContent"]
    equal("... memory is the page's, in whole bytes", int(float(sample["node_memory_MemTotal_bytes"])), structured["memory"])
    report("... as an integer", type(structured["memory"]) is int, structured["memory"])
    started = datetime.datetime.fromisoformat(structured["started"]).timestamp()
    equal("... and the moment it was started", float(sample["node_boot_time_seconds"]), started)
    result = call(base, "machine_disks", modern=True)
    found = {disk["mounted_on"]: disk["bytes"] for disk in result["structuredContent"]["disks"]}
    size = re.compile(r'node_filesystem_size_bytes\{.*mountpoint="([^"]*)".*\}')
    said = {match[1]: float(value) for name, value in sample.items() if (match := size.fullmatch(name))}
    equal("machine_disks has the file systems of the page", said, {name: float(size) for name, size in found.items()})
    schema = advertised(base, "machine_status").get("outputSchema", {})
    equal("outputSchema says what the moment is", "date-time", schema["properties"]["started"].get("format"))


# -- gone -------------------------------------------------------------------------


def gone(server, base, tool):
    address = server.split("//")[1]
    status, body = rest(base, tool)
    report(f"{tool} without its server: REST answers 502", status == 502, status)
    equal("... as an error", True, body.get("isError"))
    text = json.dumps(body)
    report("... that does not name the address", address not in text and "127.0.0.1" not in text, text)
    report("... but says something", len(body["content"][0]["text"]) > 10, text)
    for modern in (True, False):
        result = call(base, tool, modern)
        equal("... as a tool error", True, result.get("isError"))
        equal("... with the same words as over REST", body["content"], result["content"])


def main():
    what, *rest_of = sys.argv[1:]
    {"nginx": nginx, "apache": apache, "haproxy": haproxy, "node": node, "gone": gone}[what](*rest_of)
    verdict.end()


if __name__ == "__main__":
    main()
