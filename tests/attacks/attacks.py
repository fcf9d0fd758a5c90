#!/usr/bin/env python3
"""The measuring part of tests/attacks/run; see there."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import resource
import socket
import ssl
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

CLIENTS = 32
RATE_PER_CLIENT = 20
SECONDS = 6
# Goals: what ordinary clients may notice, in milliseconds or as a multiple of the quiet run.
P99_RATIO = 2.0
HEALTH_MS = 100
CPU_AFTER = 0.05

# -- Attacks --------------------------------------------------------------------------------------------------------


@dataclass
class Attack:
    """One attack: a route with its upstream's body and the arguments sent to it again and again, or a function."""

    name: str
    route: dict = field(default_factory=dict)
    arguments: object = field(default_factory=dict)
    body: bytes = b""
    connections: int = 8
    media_type: str = "json"
    # Most resident memory in MiB, while it goes on and ten seconds later.
    memory_mib: int = 300
    memory_after_mib: int | None = None
    # Another way of attacking: called with the attacked `Glossator` until the event is set.
    run: object = None
    config: dict = field(default_factory=dict)
    descriptors: int | None = None
    in_flight: int = 128
    # Through a plain reverse proxy in place of glossator.
    through_nginx: bool = False

    def has_tls(self):
        return "tls" in self.config.get("server", {})

    def quiet(self):
        """The quiet run that this attack is compared with."""
        how = "nginx: " if self.through_nginx else "TLS: " if self.has_tls() else ""
        config = self.config if self.has_tls() else {}
        return Attack(how + "quiet", config=config, through_nginx=self.through_nginx)


def numbers(text, count):
    return Raw('{"v":[' + ",".join([text] * count) + "]}")


class Raw(str):
    """JSON text that is sent as it is."""


def list_of(items, **keywords):
    return {"type": "object", "properties": {"v": {"type": "array", "items": items, **keywords}}}


TREE = {
    "type": "object",
    "properties": {"v": {"$ref": "#/$defs/tree"}},
    "$defs": {
        "tree": {
            "anyOf": [
                {"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}}, "required": ["a", "b"]},
                {"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}}, "required": ["a", "c"]},
                {"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}}, "required": ["a", "d"]},
            ]
        }
    },
}


def nested(depth):
    return Raw('{"v":' + '{"a":' * depth + "{}" + "}" * depth + "}")


def near_numbers(count):
    """Distinct integers that all round to one 64-bit float."""
    return "[" + ",".join(f"1000000000000000000000000{n:05}" for n in range(count)) + "]"


LOOP = "{% for i in range(structured.n) %}{% for j in range(structured.n) %}{% endfor %}{% endfor %}."
COUNT = "{% for i in range(args.n) %}{% for j in range(args.n) %}{% endfor %}{% endfor %}."
ROWS = json.dumps([{"key": f"k{n}", "value": n} for n in range(9000)]).encode()
MANY = json.dumps(list(range(45_000))).encode()
SEVEN = json.dumps({"text": "x" * 7_000_000}).encode()
SEVEN_ROWS = json.dumps([{"id": n, "name": f"pump {n}", "on": True} for n in range(145_000)]).encode()
ONE = json.dumps({"text": "x" * 1_000_000}).encode()


def query(template):
    properties = {"n": {"type": "integer"}, **({"t": {"type": "string"}} if "args.t" in template else {})}
    request = {"upstream": "files", "path": "/attacked", "query": {"q": template}}
    return {"request": request, "input": {"properties": properties, "required": list(properties)}}


CONFIRMED = {
    "description": "x",
    "request": "GET files/200",
    "confirm": "Sure?",
    "input": {"properties": {"v": {}}},
}


def jq(program):
    return {"response": {"structured": program}}


ATTACKS = [
    Attack("schema: exponents, integer", {"input": list_of({"type": "integer"})}, numbers("1e-9998", 2000)),
    Attack("schema: exponents, multipleOf", {"input": list_of({"type": "number", "multipleOf": 0.01})}, numbers("1e-9998", 2000)),
    Attack("schema: exponents, enum", {"input": list_of({"enum": [0.1, 0.2]})}, numbers("1e-9998", 2000)),
    Attack("schema: uniqueItems", {"input": list_of({}, uniqueItems=True)}, Raw('{"v":' + near_numbers(2500) + "}")),
    Attack("schema: recursion, arguments", {"input": TREE}, nested(60)),
    Attack("schema: exponents, result", {"output": {"type": "array", "items": {"type": "integer"}}}, {}, numbers("1e-9998", 2000)[5:-1].encode()),
    Attack("schema: uniqueItems, result", {"output": {"type": "array", "uniqueItems": True}}, {}, near_numbers(2500).encode()),
    Attack("schema: recursion, result", {"output": TREE}, {}, nested(60).encode()),
    Attack("jq: reduce over a number", jq("reduce range(.n) as $i (0; . + $i)"), {}, b'{"n":40000}'),
    Attack("jq: nested ranges", jq("[range(.n) as $i | range(.n) | . * $i] | length"), {}, b'{"n":900}'),
    Attack("jq: sorts and groups 7 KB", jq("[range(50) as $i | (.v | sort_by(-.) | group_by(. % 7) | length)] | add"), {}, json.dumps({"v": list(range(1400))}).encode()),
    Attack("template: nested loops", {"response": {"content": LOOP}}, {}, b'{"n":2000}'),
    Attack("request template: nested loops", query(COUNT), {"n": 2000}),
    Attack("request template: repeats", query("{{ ('x' * args.n)[:9] }}"), {"n": 60_000_000}),
    Attack("request template: searches", query("{% for i in range(args.n) %}{{ 'y' if 'y' in args.t }}{% endfor %}"), {"n": 9000, "t": "x" * 100_000}),
    Attack("jq: gsub over 20 KB", jq('{r: (.t | gsub("a"; "b") | length)}'), {}, json.dumps({"t": "a" * 20_000}).encode()),
    Attack("jq: gsub over 60 KB", jq('{r: (.t | gsub("a"; "b") | length)}'), {}, json.dumps({"t": "a" * 60_000}).encode()),
    Attack("jq: . + [$x]", jq("reduce .[] as $x ([]; . + [$x]) | length"), {}, MANY),
    Attack("jq: add of arrays", jq("map([.]) | add | length"), {}, MANY),
    Attack("jq: from_entries", jq("from_entries | length"), {}, ROWS),
    Attack("jq: with_entries", jq("from_entries | with_entries(.value += 1) | length"), {}, ROWS),
    Attack("jq: tonumber of 250,000 digits", jq("{r: (.t | tonumber)}"), {}, json.dumps({"t": "9" * 250_000}).encode()),
    Attack("jq: fromjson of 250,000 digits", jq("{r: (.t | fromjson)}"), {}, json.dumps({"t": "9" * 250_000}).encode()),
    Attack("memory: 60 calls of 7 MB at once", {"response": {"structured": ".[0]"}}, {}, SEVEN_ROWS, connections=60, memory_mib=450),
    Attack("memory: 100 calls of 7 MB", {}, {}, SEVEN, connections=100, memory_mib=450, memory_after_mib=60),
    Attack("memory: 32 clients with 1 MB", {}, {}, ONE, connections=32, memory_after_mib=30),
]

# -- The program and its clients -------------------------------------------------------------------------------------


def configuration(upstream_port, attack):
    routes = {
        "harmless": {"description": "200 bytes of JSON that no rule looks into.", "request": "GET files/200"},
    }
    if attack.run is None:
        routes["attacked"] = {"description": "What the attackers call.", "request": "GET files/attacked", **attack.route}
    config = {
        "server": {},
        "admin": {"listen": "127.0.0.1:0"},
        "upstreams": {"files": {"url": f"http://127.0.0.1:{upstream_port}", "max_in_flight": attack.in_flight}},
        "passthrough": {"upstream": "files"},
        "routes": routes,
    }
    for section, keys in attack.config.items():
        config[section] = {**config[section], **keys}
    return config


class Glossator:
    """A running program with one configuration."""

    def __init__(self, program, work, config, descriptors=None):
        path = work / "attacks.json.yaml"
        path.write_text(json.dumps(config))
        self.log_path = work / "glossator.log"
        self.log = self.log_path.open("w")
        limit = None
        if descriptors:
            limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))  # noqa: E731
        self.process = subprocess.Popen(
            [program, "run", "--config", path, "--listen", "127.0.0.1:0", "--log-level", "info"],
            stdout=self.log, stderr=self.log, preexec_fn=limit,
        )
        self.pid = self.process.pid
        self.address = self.find(r"on https?://([0-9.]+:\d+)")
        self.admin = self.find(r"(?:admin API listening|admin).*?address=([0-9.]+:\d+)")

    def find(self, pattern):
        for _ in range(200):
            text = re.sub(r"\x1b\[[0-9;]*m", "", self.log_path.read_text())
            found = re.search(pattern, text)
            if found:
                return found[1]
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        sys.exit(f"glossator did not say where it listens:\n{self.log_path.read_text()}")

    def status(self, key):
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{key}:\s+(\d+)", text)[1]) / 1024

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def has_died(self):
        return self.process.poll() is not None

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Nginx:
    """The plain reverse proxy, which runs already. Its memory and CPU time are not measured."""

    def __init__(self, port):
        self.address = self.admin = f"127.0.0.1:{port}"

    def status(self, _key):
        return 0.0

    def cpu_seconds(self):
        return 0.0

    def has_died(self):
        return False

    def stop(self):
        pass


def connect(address, timeout, tls=False):
    host, port = address.split(":")
    if not tls:
        return http.client.HTTPConnection(host, int(port), timeout=timeout)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(host, int(port), timeout=timeout, context=context)


class Probe(threading.Thread):
    """Requests one path every 20 ms on a new connection each time, as a kubelet does."""

    def __init__(self, address, path, tls=False):
        super().__init__(daemon=True)
        self.address, self.path, self.tls = address, path, tls
        self.worst_ms, self.failures, self.ended = 0.0, 0, threading.Event()

    def run(self):
        while not self.ended.wait(0.02):
            began = time.perf_counter()
            try:
                client = connect(self.address, 20, self.tls)
                client.request("GET", self.path)
                if client.getresponse().status >= 400:
                    self.failures += 1
                client.close()
            except OSError:
                self.failures += 1
            self.worst_ms = max(self.worst_ms, (time.perf_counter() - began) * 1000)


def attacker(address, body, ended, counts):
    """Calls the attacked route again and again; leaves in the middle of a call when it is over."""
    client = None
    while not ended.is_set():
        try:
            if client is None:
                client = connect(address, 60)
                client.connect()
            client.request("POST", "/tools/attacked", body, {"Content-Type": "application/json"})
            client.sock.settimeout(0.2)
            response = None
            # The wait is cut short when the attack is over: the client leaves, whatever the server does.
            while not ended.is_set():
                try:
                    if response is None:
                        response = client.getresponse()
                    while response.read(1 << 20):
                        pass
                    break
                except TimeoutError:
                    if response is not None or client.sock is None:
                        raise
                    continue
            if ended.is_set():
                break
            counts[response.status] = counts.get(response.status, 0) + 1
        except (OSError, http.client.HTTPException):
            client = None
            time.sleep(0.02)


def ordinary_clients(address, work, seconds, tls=False):
    """32 connections that call the harmless route at a fixed rate; the process and its log of times."""
    log, body = work / "times.tsv", work / "request"
    log.unlink(missing_ok=True)
    body.write_text("{}")
    command = ["h2load", "--h1", "-t1", f"-c{CLIENTS}", f"-D{seconds}", f"--rps={RATE_PER_CLIENT}", f"--log-file={log}"]
    command += ["-d", str(body), "-H", "Content-Type: application/json"]
    url = f"{'https' if tls else 'http'}://{address}/tools/harmless"
    process = subprocess.Popen(command + [url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return process, log


def measured(program, work, ports, attack):
    """One row: what was noticed while the attack went on, and after it."""
    upstream_port, proxy_port = ports
    (work / "bodies" / "attacked").write_bytes(attack.body or b"{}")
    tls = attack.has_tls()
    if attack.through_nginx:
        proxy = Nginx(proxy_port)
    else:
        proxy = Glossator(program, work, configuration(upstream_port, attack), attack.descriptors)
    row = {"name": attack.name}
    try:
        health, admin = Probe(proxy.address, "/health", tls), Probe(proxy.admin, "/healthz")
        load, log = ordinary_clients(proxy.address, work, SECONDS + 1, tls)
        time.sleep(0.5)
        health.start(), admin.start()
        ended, counts = threading.Event(), {}
        body = attack.arguments if isinstance(attack.arguments, Raw) else json.dumps(attack.arguments)
        threads = []
        if attack.run:
            threads = [threading.Thread(target=attack.run, args=(proxy, ended, counts), daemon=True)]
        elif not attack.name.endswith("quiet"):
            arguments = (proxy.address, body.encode(), ended, counts)
            threads = [
                threading.Thread(target=attacker, args=arguments, daemon=True)
                for _ in range(attack.connections)
            ]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS)
        ended.set()
        health.ended.set(), admin.ended.set()
        try:
            load.wait(60)
        except subprocess.TimeoutExpired:
            load.kill()
        # The attackers have left; a second later nothing of theirs may be under way.
        time.sleep(1)
        before = proxy.cpu_seconds()
        time.sleep(1)
        row["cpu_after"] = proxy.cpu_seconds() - before
        rows = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        times = sorted(int(fields[2]) for fields in rows if fields[1] == "200")
        row["refused"] = sum(fields[1] != "200" for fields in rows)
        row["answered"] = len(times)
        row["p99"] = times[len(times) * 99 // 100] / 1000 if times else float("inf")
        row["health"], row["admin"] = health.worst_ms, admin.worst_ms
        row["probe_failures"] = health.failures + admin.failures
        row["counts"] = counts
        row["peak"] = proxy.status("VmHWM")
        if attack.memory_after_mib:
            time.sleep(8)
        row["after"] = proxy.status("VmRSS")
        row["died"] = proxy.has_died()
        for thread in threads:
            thread.join(timeout=5)
    finally:
        proxy.stop()
    return row


# -- Attacks that are no calls ------------------------------------------------------------------------------------------


def slow_uploads(glossator, ended, counts):
    """Eight requests through the passthrough whose bodies come a byte at a time."""
    clients = []
    for _ in range(8):
        client = socket.create_connection(glossator.address.split(":"), timeout=5)
        client.sendall(b"POST /upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n")
        clients.append(client)
    while not ended.wait(0.1):
        for client in clients:
            with contextlib.suppress(OSError):
                client.send(b"x")
    for client in clients:
        client.close()


def one_address(glossator, ended, counts):
    """Two hundred clients behind one address, each with an upload through the passthrough that comes a byte at a time;
    and one at another address that asks for something short there. Of the first, as many wait for the upstream as one
    client may have (`max_in_flight_per_client`); the second notices nothing."""
    host, port = glossator.address.split(":")
    head = b"POST /upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n"
    clients = []
    for _ in range(200):
        client = socket.create_connection((host, int(port)), timeout=5, source_address=("127.0.0.2", 0))
        client.sendall(head)
        clients.append(client)

    def other():
        while not ended.wait(0.02):
            client = http.client.HTTPConnection(host, int(port), timeout=10, source_address=("127.0.0.3", 0))
            try:
                client.request("GET", "/200")
                status = client.getresponse().status
            except (OSError, http.client.HTTPException) as error:
                status = type(error).__name__
            finally:
                client.close()
            counts[f"{status} to the other"] = counts.get(f"{status} to the other", 0) + 1

    neighbour = threading.Thread(target=other, daemon=True)
    neighbour.start()
    while not ended.wait(0.1):
        for client in clients:
            with contextlib.suppress(OSError):
                client.send(b"x")
    neighbour.join(timeout=11)
    for client in clients:
        client.close()


def slow_streams(glossator, ended, counts):
    """One HTTP/2 connection with 128 such requests."""
    import h2.connection
    import h2.events

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    client = context.wrap_socket(socket.create_connection(glossator.address.split(":"), timeout=5))
    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    streams = []
    for _ in range(128):
        stream = connection.get_next_available_stream_id()
        headers = [(":method", "POST"), (":path", "/upload"), (":scheme", "https"), (":authority", "127.0.0.1")]
        connection.send_headers(stream, headers)
        streams.append(stream)
    client.sendall(connection.data_to_send())
    client.settimeout(0.1)
    while not ended.is_set():
        with contextlib.suppress(TimeoutError):
            for event in connection.receive_data(client.recv(65536)):
                if isinstance(event, h2.events.ResponseReceived):
                    status = dict(event.headers).get(b":status", b"?").decode()
                    counts[status] = counts.get(status, 0) + 1
                if isinstance(event, (h2.events.StreamReset, h2.events.StreamEnded)) and event.stream_id in streams:
                    streams.remove(event.stream_id)
        for stream in list(streams):
            with contextlib.suppress(Exception):
                connection.send_data(stream, b"x")
        with contextlib.suppress(OSError):
            client.sendall(connection.data_to_send())
        # Each answer of the server would else be followed by the next bytes at once: that is not slow, and
        # leaves no time to the probes, which are threads of this process.
        ended.wait(0.1)
    client.close()


def many_values(glossator, ended, counts):
    """Calls of many clients that wait for a confirmation. Parsed, their arguments take 80 times the memory."""

    def message(method, params):
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

    def request(body, more=""):
        head = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{more}\r\n"
        client = socket.create_connection(glossator.address.split(":"), timeout=5)
        client.sendall((head + body).encode())
        return client

    hello = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}}
    client = request(message("initialize", {**hello, "clientInfo": {"name": "a", "version": "1"}}))
    session = re.search(rb"mcp-session-id: *(\S+)", client.recv(65536), re.IGNORECASE)[1].decode()
    session = f"Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n"
    short, long = [
        message("tools/call", {"name": "confirmed", "arguments": {"v": [{"": 0}] * values}})
        for values in [2_000, 25_000]
    ]
    clients = []
    for body in [short] * 1000 + [long] * 400:
        if ended.is_set():
            break
        with contextlib.suppress(OSError):
            clients.append(request(body, session))
    ended.wait()
    for client in clients:
        client.settimeout(0.01)
        try:
            answer = client.recv(12).decode()[9:] or "closed"
        except OSError:
            answer = "waiting"
        counts[answer] = counts.get(answer, 0) + 1
        client.close()


def unfinished_requests(glossator, ended, counts):
    """More connections than there are descriptors, each with a request whose body does not come."""
    clients = []
    while not ended.is_set():
        try:
            client = socket.create_connection(glossator.address.split(":"), timeout=0.2)
            client.sendall(
                b"POST /tools/harmless HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
            )
            clients.append(client)
        except OSError:
            ended.wait(0.2)
        if len(clients) >= 1500:
            break
    ended.wait()
    counts["connections"] = len(clients)
    for client in clients:
        client.close()


# -- The table -----------------------------------------------------------------------------------------------------


def prepare(work):
    bodies = work / "bodies"
    bodies.mkdir(parents=True, exist_ok=True)
    (bodies / "200").write_text(json.dumps({"note": "x" * 188}))


def over(text, is_over):
    return f"**{text}**" if is_over else text


def line(row, attack, quiet):
    ratio = row["p99"] / quiet["p99"]
    after = row["after"] if attack.memory_after_mib else None
    counts = " ".join(f"{count} × {status}" for status, count in sorted(row["counts"].items(), key=str))
    return " | ".join([
        f"| {row['name']}",
        over(f"{row['answered']}", row["answered"] < quiet["answered"] * 0.98 or row["refused"]),
        over(f"{row['p99']:.1f} ({ratio:.1f} ×)", ratio > P99_RATIO),
        over(f"{row['health']:.0f}", row["health"] > HEALTH_MS),
        over(f"{row['admin']:.0f}", row["admin"] > HEALTH_MS),
        over(f"{row['probe_failures']}", row["probe_failures"] > 0),
        over(f"{row['peak']:.0f} of {attack.memory_mib}", row["peak"] > attack.memory_mib),
        "" if after is None else over(f"{after:.0f} of {attack.memory_after_mib}", after > attack.memory_after_mib),
        over(f"{row['cpu_after']:.2f}", row["cpu_after"] > CPU_AFTER),
        f"{counts} |",
    ])


def run(work, program, ports, words):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    tls = {"certificate": f"file:{work}/tls.crt", "key": f"file:{work}/tls.key"}
    everything = ATTACKS + [
        Attack("passthrough: 8 slow uploads, max_in_flight: 8", run=slow_uploads, in_flight=8),
        Attack("passthrough: 200 slow uploads from one address, max_in_flight: 8", run=one_address, in_flight=8),
        Attack("passthrough: 128 slow HTTP/2 streams", run=slow_streams, config={"server": {"tls": tls}}),
        Attack(
            "memory: arguments of many values",
            run=many_values,
            memory_mib=450,
            config={"routes": {"confirmed": CONFIRMED}},
        ),
        Attack("descriptors: 1,024, and 1,500 unfinished requests", run=unfinished_requests, descriptors=1024),
        Attack("nginx: 100 calls of 7 MB", {}, {}, SEVEN, connections=100, through_nginx=True),
        Attack("nginx: 32 clients with 1 MB", {}, {}, ONE, connections=32, through_nginx=True),
    ]
    chosen = [attack for attack in everything if not words or any(word in attack.name for word in words)]
    print("Ordinary clients: 32, with 20 calls a second each. Bold is above the goal.\n")
    print(
        "| attack | calls answered | p99, ms (against quiet) | /health, worst ms | admin port, worst ms "
        "| probes failed | memory, MiB | 10 s later | CPU seconds in the second after | answers to attackers |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    quiet_rows = {}
    failures = []
    for attack in chosen:
        quiet = attack.quiet()
        if quiet.name not in quiet_rows:
            quiet_rows[quiet.name] = measured(program, work, ports, quiet)
            print(line(quiet_rows[quiet.name], quiet, quiet_rows[quiet.name]), flush=True)
        row = measured(program, work, ports, attack)
        print(line(row, attack, quiet_rows[quiet.name]), flush=True)
        after = attack.memory_after_mib or float("inf")
        starved = [answer for answer in row["counts"] if str(answer).endswith("other") and answer != "200 to the other"]
        is_over = row["peak"] > attack.memory_mib or row["after"] > after
        if row["died"] or not row["answered"] or is_over or starved:
            failures.append(attack.name)
    if failures:
        sys.exit(f"not withstood: {'; '.join(failures)}")


def main():
    command, work, *rest = sys.argv[1:]
    work = pathlib.Path(work)
    if command == "prepare":
        prepare(work)
    else:
        run(work, rest[0], (int(rest[1]), int(rest[2])), rest[3:])


if __name__ == "__main__":
    main()
