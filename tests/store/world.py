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


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
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
    """Three replicas behind a balancer, and what they share: `kind` is `server`, `sentinel` or `cluster`."""

    def __init__(self, kind, work, glossator, config, store, haproxy):
        self.kind, self.work, self.program = kind, work, store
        work.mkdir()
        self.processes = []
        self.ca = (work.parent / "ca.pem").read_text()
        self.nodes, self.sentinels = [], []
        # Comes first where there are several addresses, and never says a word.
        self.silent = socket.create_server(("127.0.0.1", 0))
        if kind == "server":
            self.store = self.node(0)
            url = f"rediss://localhost:{self.nodes[0][0]}"
        elif kind == "sentinel":
            for number in range(3):
                self.node(number, *([f"replicaof 127.0.0.1 {self.nodes[0][0]}"] if number else []))
            for number in range(3):
                self.sentinel(number)
            url = f"rediss+sentinel://{self.addresses(self.sentinels)}/mymaster"
        else:
            for number in range(6):
                self.node(number, "cluster-enabled yes", "cluster-node-timeout 1000", f"cluster-port {free_port()}")
            url = f"rediss+cluster://{self.addresses(self.nodes[:3])}"
        folder = work / "config"
        folder.mkdir()
        (folder / "glossator.yaml").write_text(pathlib.Path(config).read_text())
        (folder / "shared.yaml").write_text(self.shared())
        self.ports, self.operators, self.replicas = [], [], []
        for number in range(3):
            port, operators = free_port(), free_port()
            environment = {
                "STORE_URL": url,
                "STORE_PASSWORD": PASSWORD,
                "STORE_CA": self.ca,
                "GLOSSATOR__ADMIN__LISTEN": f"127.0.0.1:{operators}",
                "GLOSSATOR__SERVER__ADVERTISE_URL": f"http://127.0.0.1:{port}",
            }
            command = [glossator, "run", "--config", str(folder), "--listen", f"127.0.0.1:{port}", "--log-format", "json"]
            self.replicas.append(self.process(work, f"replica-{number}", command, environment))
            self.ports.append(port)
            self.operators.append(operators)
        self.port = free_port()
        (work / "haproxy.cfg").write_text(self.balancing())
        self.balancer = self.process(work, "haproxy", [haproxy, "-db", "-f", str(work / "haproxy.cfg")])

    def addresses(self, nodes):
        ports = [self.silent.getsockname()[1], *(port for port, _ in nodes)]
        return ",".join(f"127.0.0.1:{port}" for port in ports)

    def shared(self):
        """The section `shared_state` of the replicas."""
        sentinel = "\n  sentinel_password: ${STORE_PASSWORD}" if self.kind == "sentinel" else ""
        return f"""
shared_state:
  url: ${{STORE_URL}}
  user: glossator
  password: ${{STORE_PASSWORD}}{sentinel}
  prefix: test
  tls: {{ ca: "${{STORE_CA}}" }}
"""

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

    def tls(self, port):
        folder = self.work.parent
        return f"""
port 0
bind 127.0.0.1
tls-port {port}
tls-cert-file {folder}/store.pem
tls-key-file {folder}/store.key
tls-ca-cert-file {folder}/ca.pem
tls-auth-clients no
tls-replication yes
"""

    def node(self, number, *more):
        """One server of the store, with a user that may do what the page tells an operator to allow."""
        page = (pathlib.Path(__file__).parents[2] / "config/book/reference/shared-state.md").read_text()
        allowed = " ".join(re.search(r"\*\*Permissions\*\*:[^`]+`([^`]+)`", page).group(1).split())
        if self.kind == "cluster":
            allowed += " " + re.search(r"[Ii]n a Cluster[^`]+`([^`]+)`", page).group(1)
            more = [*more, "tls-cluster yes"]
        if self.kind != "server":
            more = [*more, "masteruser operator", f"masterauth {PASSWORD}", "repl-diskless-sync-delay 0"]
            more.append(f"user operator on >{PASSWORD} ~* &* +@all")
        port, folder = free_port(), self.work / f"store-{number}"
        folder.mkdir()
        lines = "\n".join(more)
        (folder / "store.conf").write_text(f"""{self.tls(port)}
dir {folder}
save ""
appendonly no
user default off
user glossator on >{PASSWORD} ~test:* resetchannels &test:notifications {allowed}
{lines}
""")
        process = self.process(self.work, f"store-{number}", [self.program, str(folder / "store.conf")])
        self.nodes.append((port, process))
        return process

    def sentinel(self, number):
        port, folder = free_port(), self.work / f"sentinel-{number}"
        folder.mkdir()
        (folder / "sentinel.conf").write_text(f"""{self.tls(port)}
dir {folder}
requirepass {PASSWORD}
sentinel sentinel-pass {PASSWORD}
sentinel monitor mymaster 127.0.0.1 {self.nodes[0][0]} 2
sentinel auth-user mymaster operator
sentinel auth-pass mymaster {PASSWORD}
sentinel down-after-milliseconds mymaster 1000
sentinel failover-timeout mymaster 3000
""")
        command = [self.program, str(folder / "sentinel.conf"), "--sentinel"]
        self.sentinels.append((port, self.process(self.work, f"sentinel-{number}", command)))

    def cli(self, port, *words, user="operator"):
        """What a server answers to an operator."""
        cli = pathlib.Path(self.program).with_name(pathlib.Path(self.program).name.replace("-server", "-cli"))
        login = ["--user", user, "-a", PASSWORD, "--no-auth-warning"]
        command = [cli, "--tls", "--cacert", self.work.parent / "ca.pem", "-p", str(port), *login, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout

    def make_cluster(self):
        nodes = [f"127.0.0.1:{port}" for port, _ in self.nodes]
        made = self.cli(self.nodes[0][0], "--cluster", "create", *nodes, "--cluster-replicas", "1", "--cluster-yes")
        if "All 16384 slots covered" not in made:
            raise SystemExit(f"no cluster: {made}")
        for port, _ in self.nodes:
            until("the cluster", lambda: "cluster_state:ok" in self.cli(port, "CLUSTER", "INFO"))
        until("its replicas", lambda: all("master_link_status:down" not in self.cli(port, "INFO", "replication") for port, _ in self.nodes))

    def primaries(self):
        """Where the servers that take writes listen, and their processes."""
        return [node for node in self.nodes if "role:master" in self.cli(node[0], "INFO", "replication")]

    def process(self, *arguments):
        self.processes.append(Process(*arguments))
        return self.processes[-1]

    def start(self):
        for port, process in [*self.nodes, *self.sentinels]:
            process.start()
            until("the store", lambda: listens(port))
        if self.kind == "cluster":
            self.make_cluster()
        elif self.kind == "sentinel":
            enough = "master0:name=mymaster,status=ok,address=127.0.0.1:%d,slaves=2,sentinels=3" % self.nodes[0][0]
            for port, _ in self.sentinels:
                until("Sentinels", lambda: enough in self.cli(port, "INFO", "sentinel", user="default"))
        for process in [*self.replicas, self.balancer]:
            process.start()
        for port in [*self.ports, self.port]:
            until("a replica", lambda: answers(port))
        self.until_store(True)

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
            until("the store to be seen", lambda: self.ready(number)["shared_state"]["reachable"] == there)


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
