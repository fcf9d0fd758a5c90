#!/usr/bin/env python3
"""The measuring part of tests/bench/load; see there."""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import urllib.request

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CONNECTIONS = 32


# -- Bodies ---------------------------------------------------------------------------


def filled(size):
    """A JSON object of exactly `size` bytes, records inside."""
    record = {"id": 1234567, "name": "pump \"north\"", "pressure": 1.5, "tags": ["a", "bb"], "on": True}
    one = json.dumps(record)
    count = max(0, (size - 60) // (len(one) + 2))
    body = {"items": [record] * count, "note": ""}
    body["note"] = "x" * (size - len(json.dumps(body)))
    text = json.dumps(body)
    assert len(text) == size, (len(text), size)
    return text


def lines(size):
    out = ["line_01: 42", "line_02: 3.25", "line_03: all is well", "line_04: true"]
    n = 5
    while sum(map(len, out)) + len(out) < size - 40:
        out.append(f"line_{n:02}: {n * 1000003}")
        n += 1
    return "\n".join(out) + "\n"


def prepare(work):
    bodies = work / "bodies"
    bodies.mkdir(parents=True, exist_ok=True)
    (bodies / "200").write_text(filled(200))
    (bodies / "2k").write_text(filled(2_000))
    (bodies / "16k").write_text(filled(16_000))
    (bodies / "1m").write_text(filled(1_000_000))
    (bodies / "text").write_text(lines(2_000))
    assert "line_40:" in (bodies / "text").read_text()


# -- Rows -----------------------------------------------------------------------------


def rest(tool):
    return ("POST", f"/tools/{tool}", {"Content-Type": "application/json"}, "{}")


def mcp(tool, modern):
    params = {"name": tool, "arguments": {}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-06-18",
    }
    if modern:
        params["_meta"] = META
        headers.update({"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool})
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return ("POST", "/mcp", headers, body)


# (what, nginx's path, glossator's request)
ROWS = [
    ("REST, JSON 200 B", "/200", rest("json_200")),
    ("MCP 2026-07-28, JSON 200 B", "/200", mcp("json_200", True)),
    ("MCP 2025-06-18, JSON 200 B", "/200", mcp("json_200", False)),
    ("MCP 2026-07-28, JSON 16 KB", "/16k", mcp("json_16k", True)),
    ("MCP 2026-07-28, JSON 1 MB", "/1m", mcp("json_1m", True)),
    ("MCP 2026-07-28, text to typed fields", "/text", mcp("text_2k", True)),
    ("MCP 2026-07-28, jq on JSON 2 KB", "/2k", mcp("jq_2k", True)),
    ("MCP 2026-07-28, looping template on JSON 2 KB", "/2k", mcp("template_2k", True)),
]


def lua(request):
    method, _, headers, body = request
    text = [f'wrk.method = "{method}"', f"wrk.body = [==[{body}]==]"]
    text += [f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items()]
    return "\n".join(text) + "\n"


def once(base, request, upstream_body, what):
    """One call, looked at: a fast wrong answer is no result."""
    method, path, headers, body = request
    asked = urllib.request.Request(base + path, data=body.encode() or None, headers=headers, method=method)
    with urllib.request.urlopen(asked, timeout=20) as reply:
        text = reply.read().decode()
    if path == "/mcp":
        result = json.loads(text)["result"]
    else:
        result = json.loads(text)
    if result.get("isError"):
        sys.exit(f"{what}: a tool error: {text[:300]}")
    structured = result["structuredContent"]
    if "typed" in what:
        good = structured["line_01"] == 42 and structured["line_02"] == 3.25 and structured["line_04"] is True
    elif "jq" in what:
        items = json.loads(upstream_body)["items"]
        good = len(structured["on"]) == len(items) and structured["mean"] == 1.5
    else:
        good = structured == json.loads(upstream_body)
    if "template" in what:
        lines = result["content"][0]["text"].splitlines()
        good = good and len(lines) == len(structured["items"]) and lines[0].startswith("- 1234567: PUMP")
    if not good:
        sys.exit(f"{what}: not what the upstream said: {text[:300]}")
    return len(text)


# -- Measuring ------------------------------------------------------------------------


def processes(pid):
    """The process and all its descendants."""
    found, queue = [], [pid]
    while queue:
        one = queue.pop()
        found.append(one)
        for task in pathlib.Path(f"/proc/{one}/task").glob("*/children"):
            try:
                queue += [int(child) for child in task.read_text().split()]
            except OSError:  # a thread that has ended meanwhile
                continue
    return found


def cpu_seconds(pid):
    ticks = 0
    for one in processes(pid):
        fields = pathlib.Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def load(url, script, seconds, pid, what):
    command = ["taskset", "-c", "0", "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s"]
    if script:
        command += ["-s", script]
    before = cpu_seconds(pid)
    out = subprocess.run(command + [url], capture_output=True, text=True, timeout=seconds + 60, check=True).stdout
    used = cpu_seconds(pid) - before
    for trouble in ("Non-2xx", "Socket errors"):
        if trouble in out:
            sys.exit(f"{what}: {re.search(f'.*{trouble}.*', out)[0].strip()}")
    calls = int(re.search(r"(\d+) requests in", out)[1])
    return {
        "rate": float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]),
        "cpu": used / max(calls, 1) * 1e6,
    }


def p99_at(rate, url, request, work, seconds, what):
    """The 99th percentile in milliseconds, of so many requests a second, evenly spread."""
    log = work / "times.tsv"
    log.unlink(missing_ok=True)
    command = ["taskset", "-c", "0", "h2load", "--h1", "-t1", f"-c{CONNECTIONS}", f"-D{seconds}"]
    command += [f"--rps={max(rate / CONNECTIONS, 1):.1f}", f"--log-file={log}"]
    if request:
        body = work / "request"
        body.write_text(request[3])
        command += ["-d", str(body)]
        for name, value in request[2].items():
            command += ["-H", f"{name}: {value}"]
    subprocess.run(command + [url], capture_output=True, timeout=seconds + 60, check=True)
    rows = [line.split() for line in log.read_text().splitlines()]
    if any(status != "200" for _, status, *_ in rows):
        sys.exit(f"{what}: not every answer was 200")
    times = sorted(int(row[2]) for row in rows)
    return times[len(times) * 99 // 100] / 1000


def resident(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) / 1024


def run(work, arguments):
    proxy, proxy_pid = arguments.proxy[0], int(arguments.proxy[1])
    haproxy, haproxy_pid = arguments.haproxy[0], int(arguments.haproxy[1])
    glossator, glossator_pid = arguments.glossator[0], int(arguments.glossator[1])
    before, before_pid = (arguments.against[0], int(arguments.against[1])) if arguments.against else (None, 0)
    scripts = []
    for number, (what, path, request) in enumerate(ROWS):
        script = work / f"row-{number}.lua"
        script.write_text(lua(request))
        scripts.append(str(script))
        for program in filter(None, [glossator, before]):
            once(program, request, (work / "bodies" / path[1:]).read_text(), what)

    paths = list(dict.fromkeys(path for _, path, _ in ROWS))
    plain = {path: [] for path in paths}
    other = {path: [] for path in paths}
    ours = [[] for _ in ROWS]
    earlier = [[] for _ in ROWS]
    # One short run of everything first: connections, caches, the branch predictor.
    for path in paths:
        load(proxy + path, None, 1, proxy_pid, f"nginx {path}")
        load(haproxy + path, None, 1, haproxy_pid, f"HAProxy {path}")
    for (what, _, request), script in zip(ROWS, scripts):
        load(glossator + request[1], script, 1, glossator_pid, what)
        if before:
            load(before + request[1], script, 1, before_pid, what)
    for round_number in range(arguments.rounds):
        print(f"round {round_number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
        for path in paths:
            plain[path].append(load(proxy + path, None, arguments.seconds, proxy_pid, f"nginx {path}"))
            other[path].append(load(haproxy + path, None, arguments.seconds, haproxy_pid, f"HAProxy {path}"))
            for number, (what, row_path, request) in enumerate(ROWS):
                if row_path != path:
                    continue
                url, script = glossator + request[1], scripts[number]
                ours[number].append(load(url, script, arguments.seconds, glossator_pid, what))
                if before:
                    url = before + request[1]
                    earlier[number].append(load(url, script, arguments.seconds, before_pid, what))

    def median(samples, key):
        return statistics.median(sample[key] for sample in samples)

    # At equal load: half of what the slower one can do.
    calm = [([], []) for _ in ROWS]
    for _ in range(max(1, arguments.rounds - 2)):
        for number, (what, path, request) in enumerate(ROWS):
            rate = min(median(ours[number], "rate"), median(plain[path], "rate")) / 2
            seconds = arguments.seconds
            calm[number][0].append(p99_at(rate, proxy + path, None, work, seconds, f"nginx {path}"))
            calm[number][1].append(p99_at(rate, glossator + request[1], request, work, seconds, what))

    print()
    print(f"{arguments.versions[0]} as plain reverse proxy, {arguments.versions[1]}; {CONNECTIONS} connections,")
    print(f"one core each, medians of {arguments.rounds} rounds of {arguments.seconds} s.")
    print()
    print(
        "| call | CPU per call against nginx | HAProxy's | calls per second against nginx "
        "| p99 at equal load against nginx | CPU per call, µs | calls per second | p99 at equal load, ms |"
        + (" CPU per call against the other build |" if before else "")
    )
    print("|---|---|---|---|---|---|---|---|" + ("---|" if before else ""))
    rows = {}
    for (what, path, _), samples, samples_before, quiet in zip(ROWS, ours, earlier, calm):
        base = plain[path]
        cpu, rate = (median(samples, key) for key in ("cpu", "rate"))
        base_cpu, base_rate = (median(base, key) for key in ("cpu", "rate"))
        base_p99, p99 = (statistics.median(times) for times in quiet)
        other_cpu = median(other[path], "cpu")
        rows[what] = {"cpu": cpu / base_cpu, "rate": rate / base_rate, "p99": p99 / base_p99}
        print(
            f"| {what} | {cpu / base_cpu:.2f} | {other_cpu / base_cpu:.2f} | {rate / base_rate:.2f} "
            f"| {p99 / base_p99:.2f} | {cpu:.1f} (nginx {base_cpu:.1f}) | {rate:,.0f} ({base_rate:,.0f}) "
            f"| {p99:.2f} ({base_p99:.2f}) |"
            + (f" {cpu / median(samples_before, 'cpu'):.3f} |" if before else "")
        )
    print()
    print(f"Most memory that glossator had resident: {resident(glossator_pid):.0f} MB.")
    (work / "load.json").write_text(json.dumps(rows, indent=2))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["prepare", "run"])
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--proxy", nargs=2)
    parser.add_argument("--haproxy", nargs=2)
    parser.add_argument("--glossator", nargs=2)
    parser.add_argument("--against", nargs=2)
    parser.add_argument("--versions", nargs=2)
    arguments = parser.parse_args()
    if arguments.what == "prepare":
        prepare(arguments.work)
    else:
        run(arguments.work, arguments)


if __name__ == "__main__":
    main()
