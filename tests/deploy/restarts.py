#!/usr/bin/env python3
"""Replicas restart, one after the other, behind the shipped files of nginx and HAProxy, while clients call:
restarts.py WORK GLOSSATOR LEGACY_URL NGINX HAPROXY. No call may be lost."""

import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import verdict
from verdict import report

work, glossator, legacy, nginx, haproxy = sys.argv[1:]
work = pathlib.Path(work)
deploy = pathlib.Path(__file__).resolve().parents[2] / "deploy"
CLIENTS, REPLICAS = 8, 2


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def until(what, holds):
    end = time.monotonic() + 20
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"waited in vain: {what}")
        time.sleep(0.05)


def status(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path, headers={"Host": "localhost"})
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


def call(port, tool):
    """The status of a call over a connection of its own, or why there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", f"/tools/{tool}", "{}", {"Host": "localhost", "Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status if json.loads(response.read())["isError"] is False else "an error"
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        return repr(error)
    finally:
        connection.close()


class Replica:
    def __init__(self, name):
        self.name, self.port, self.operators = name, free_port(), free_port()
        self.config = work / f"{name}.yaml"
        self.config.write_text(f"""
server: {{ listen: "127.0.0.1:{self.port}", shutdown_delay: 1500ms, trusted_proxies: [127.0.0.0/8] }}
admin: {{ listen: "127.0.0.1:{self.operators}" }}
log: {{ level: warn }}
upstreams: {{ legacy: {legacy} }}
routes:
  quick: {{ description: At once., request: GET legacy/slow?seconds=0 }}
  slow: {{ description: Takes a while., request: GET legacy/slow?seconds=2 }}
""")
        self.start()

    def start(self):
        self.log = open(work / f"{self.name}.log", "a")
        self.process = subprocess.Popen([glossator, "run", "--config", self.config], stdout=self.log, stderr=self.log)
        until(f"{self.name} is ready", lambda: status(self.operators, "/readyz") == 200)

    def restart(self):
        self.process.send_signal(signal.SIGTERM)
        ended = self.process.wait(20)
        self.start()
        return ended


def of_nginx(port, replicas):
    servers = " ".join(f"server 127.0.0.1:{replica.port} max_fails=0;" for replica in replicas)
    text = (deploy / "compose-balancer.conf").read_text()
    text = text.replace("server glossator:8080 max_fails=0;", servers).replace("listen 8080;", f"listen 127.0.0.1:{port};")
    folder = work / "restarts-nginx"
    folder.mkdir()
    paths = " ".join(f"{name}_temp_path {folder}/{name};" for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
    file = folder / "nginx.conf"
    file.write_text(f"daemon off; master_process off; pid {folder}/pid; events {{ worker_connections 512; }}\n"
                    f"http {{ access_log off; {paths}\n{text}}}\n")
    return [nginx, "-p", folder, "-e", "stderr", "-c", file]


def of_haproxy(port, replicas):
    text = (deploy / "haproxy.cfg").read_text().replace("bind 127.0.0.1:8080", f"bind 127.0.0.1:{port}")
    text = text.replace("check port 9901 inter", "check inter")
    for number, replica in enumerate(replicas, 1):
        text = re.sub(rf"(server replica-{number}) \S+", rf"\1 127.0.0.1:{replica.port} port {replica.operators}", text)
    file = work / "haproxy.cfg"
    file.write_text(text)
    return [haproxy, "-db", "-f", file]


def restarted_behind(name, command_of):
    replicas = [Replica(f"{name}-{number}") for number in range(1, REPLICAS + 1)]
    port = free_port()
    log = open(work / f"restarts-{name}.log", "w")
    balancer = subprocess.Popen(command_of(port, replicas), stdout=log, stderr=log)
    counted, over, found, slow = threading.Lock(), threading.Event(), {}, []

    def count(answer):
        with counted:
            found[answer] = found.get(answer, 0) + 1

    def calling():
        while not over.is_set():
            count(call(port, "quick"))

    try:
        until(f"{name} balances", lambda: call(port, "quick") == 200)
        clients = [threading.Thread(target=calling) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        ended = []
        for replica in replicas:
            # One for each of them, so that the one that restarts has a call in flight.
            slow = [threading.Thread(target=lambda: count(call(port, "slow"))) for _ in range(REPLICAS)]
            for client in slow:
                client.start()
            time.sleep(0.3)
            ended.append(replica.restart())
            for client in slow:
                client.join()
        over.set()
        for client in clients:
            client.join()
        lost = {answer: times for answer, times in found.items() if answer != 200}
        report(f"{name}: replicas restart, and none of {sum(found.values())} calls is lost", not lost and found[200] > 100, lost)
        report(f"{name}: replicas end with status 0", ended == [0] * REPLICAS, ended)
    finally:
        over.set()
        for process in [balancer, *(replica.process for replica in replicas)]:
            process.kill()
            process.wait()


restarted_behind("nginx", of_nginx)
restarted_behind("haproxy", of_haproxy)
verdict.end()
