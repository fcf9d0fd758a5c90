"""Three replicas, the balancer before them and the store behind them, as processes that can be killed."""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request

PATIENCE = 20
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "store", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
PASSWORD = "only-for-this-test"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(what, test):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = test()
        if found:
            return found
        time.sleep(0.02)
    raise SystemExit(f"waited in vain for {what}")


def answers(port, path="/health"):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2).status == 200
    except OSError:
        return False


class Process:
    """One that ends with us."""

    def __init__(self, work, name, command, environment=None):
        self.name, self.command = name, command
        self.environment = dict(os.environ, **(environment or {}))
        self.log = work / f"{name}.log"
        self.process = None

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.log.parent
            )

    def kill(self):
        self.process.kill()
        self.process.wait()

    def send(self, which):
        self.process.send_signal(which)


class World:
    def __init__(self, work, glossator, config, store, haproxy):
        self.processes = []
        self.store_port = free_port()
        (work / "store.conf").write_text(self.storing(work))
        self.store = self.process(work, "store", [store, str(work / "store.conf")])
        self.ports, self.operators, self.replicas = [], [], []
        for number in range(3):
            port, operators = free_port(), free_port()
            environment = {
                "STORE_URL": f"rediss://localhost:{self.store_port}",
                "STORE_PASSWORD": PASSWORD,
                "STORE_CA": (work / "ca.pem").read_text(),
                "GLOSSATOR__ADMIN__LISTEN": f"127.0.0.1:{operators}",
                "GLOSSATOR__SERVER__PEER": f"http://127.0.0.1:{port}",
            }
            command = [glossator, "run", "--config", config, "--listen", f"127.0.0.1:{port}", "--log-format", "json"]
            self.replicas.append(self.process(work, f"replica-{number}", command, environment))
            self.ports.append(port)
            self.operators.append(operators)
        self.port = free_port()
        (work / "haproxy.cfg").write_text(self.balancing())
        self.balancer = self.process(work, "haproxy", [haproxy, "-db", "-f", str(work / "haproxy.cfg")])

    def balancing(self):
        # A connection of its own for each request: what is lost with a replica was being answered by it. Only what could
        # not be sent at all is sent to another. Each reply says whose it is, and so do HAProxy's own for a replica that gave
        # none; its log leaves lines out when two threads have one at a time.
        servers = "\n".join(f"    server replica-{n} 127.0.0.1:{port}" for n, port in enumerate(self.ports))
        return f"""
defaults
    mode http
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    option http-server-close
    option redispatch 1
    retries 6
    retry-on conn-failure
listen balancer
    bind 127.0.0.1:{self.port}
    balance roundrobin
    http-after-response set-header X-Replica %s
{servers}
"""

    def storing(self, work):
        page = pathlib.Path(__file__).parents[2] / "config" / "shared.md"
        # What the page tells an operator to allow.
        allowed = re.search(r"A user needs `([^`]+)`", page.read_text()).group(1)
        return f"""
port 0
bind 127.0.0.1
tls-port {self.store_port}
tls-cert-file {work}/store.pem
tls-key-file {work}/store.key
tls-ca-cert-file {work}/ca.pem
tls-auth-clients no
save ""
appendonly no
user default off
user glossator on >{PASSWORD} ~test:* resetchannels &test:told {" ".join(allowed.split())}
"""

    def process(self, *arguments):
        self.processes.append(Process(*arguments))
        return self.processes[-1]

    def start(self):
        self.store.start()
        until("the store", self.store_is_there)
        for process in [*self.replicas, self.balancer]:
            process.start()
        for port in [*self.ports, self.port]:
            until("a replica", lambda: answers(port))
        self.until_store(True)

    def store_is_there(self):
        try:
            socket.create_connection(("127.0.0.1", self.store_port), 1).close()
            return True
        except OSError:
            return False

    def end(self):
        for process in self.processes:
            if process.process:
                process.send(signal.SIGCONT)
                process.kill()

    def ready(self, number):
        url = f"http://127.0.0.1:{self.operators[number]}/readyz"
        with urllib.request.urlopen(url, timeout=5) as reply:
            return json.load(reply)

    def metric(self, number, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.operators[number]}/metrics", timeout=5) as reply:
            found = re.search(rf"^{re.escape(name)} (\S+)$", reply.read().decode(), re.M)
        return float(found.group(1)) if found else None

    def until_store(self, there):
        for number in range(3):
            until("the store to be seen", lambda: self.ready(number)["shared"]["reachable"] == there)


class Client:
    """One connection, over which calls go one after the other."""

    def __init__(self, port):
        self.port, self.connection = port, None

    def send(self, method, path, headers, body=None):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        found = {}
        try:
            self.connection.request(method, path, body, headers)
            reply = self.connection.getresponse()
            found = reply.headers
            return reply.status, found, reply.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return 0, found, repr(error)

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def rest(self, tool, arguments=None):
        return self.send("POST", f"/tools/{tool}", {"Content-Type": "application/json"}, json.dumps(arguments or {}))

    def mcp(self, revision, method, params, session=None):
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": revision,
        }
        if revision == "2026-07-28":
            params = {**params, "_meta": META}
            headers["Mcp-Method"] = method
            if "name" in params:
                headers["Mcp-Name"] = params["name"]
        if session:
            headers["Mcp-Session-Id"] = session
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.send("POST", "/mcp", headers, json.dumps(body))

    def open_session(self):
        client = {"name": "store", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        return self.mcp("2025-11-25", "initialize", params)[1]["mcp-session-id"]


class Stream:
    """What is told over a stream, read in the background."""

    def __init__(self, port, method, headers, body=None):
        self.told, self.text = [], ""
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.connection.request(method, "/mcp", body, headers)
        self.reply = self.connection.getresponse()
        self.replica = self.reply.headers.get("X-Replica")
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for line in self.reply:
                if line.startswith(b"data: {"):
                    self.told.append(json.loads(line[6:]))
        except (OSError, ValueError, http.client.HTTPException):
            pass

    def count(self, method):
        return sum(message.get("method") == method for message in self.told)


def in_parallel(count, work):
    """What `work(number)` gives, of each of so many threads."""
    found = [None] * count

    def run(number):
        found[number] = work(number)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
