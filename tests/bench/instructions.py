#!/usr/bin/env python3
"""The counting part of tests/bench/instructions; see there."""

import http.client
import pathlib
import shutil
import subprocess
import sys
import urllib.parse

from callgrind import control, dumped, total_of
from known import hold, toolchain
from load import ROWS, once
from routes import ALL, NONE, ROUTES, written

ROOT = pathlib.Path(__file__).parents[2]
# Each request of a CGI script starts the program, which reads its configuration.
CGI = ["demo.yaml", *(f"seeds/{seed}/glossator.yaml" for seed in ("kuniumi", "codeprism", "devflow"))]
REQUEST = {
    "GATEWAY_INTERFACE": "CGI/1.1",
    "REQUEST_METHOD": "GET",
    "PATH_INFO": "/tools",
    "SERVER_NAME": "localhost",
    "SERVER_PORT": "80",
    "SERVER_PROTOCOL": "HTTP/1.1",
    # The server of the sample is not there: it ends at once.
    "NODE": "/bin/true",
}
READING = {f"reading {ROUTES} routes": NONE, f"reading {ROUTES} routes that say their input": ALL}
WRITTEN = pathlib.Path(__file__).with_name("instructions.json")
# Calls before those that are counted, and those. Large replies have little that varies.
WARM, COUNTED = 60, 200
WARM_LARGE, COUNTED_LARGE = 3, 6


def reading(work, glossator, inputs):
    """What `glossator check` takes: most of what a start does."""
    config = work / "routes.yaml"
    config.write_text(written(inputs=inputs))
    return whole_run(work, [glossator, "check", "--config", config])


def whole_run(work, command, environment=None):
    """The instructions of a process from its start to its end."""
    counted = work / "whole_run"
    valgrind = [shutil.which("valgrind"), "--tool=callgrind", f"--callgrind-out-file={counted}"]
    done = subprocess.run([*valgrind, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return total_of(counted.read_text())


def main():
    work, url, pid, glossator = pathlib.Path(sys.argv[1]), *sys.argv[2:5]
    address = urllib.parse.urlsplit(url)
    client = http.client.HTTPConnection(address.hostname, address.port, timeout=120)

    def call(request, times):
        method, path, headers, body = request
        for _ in range(times):
            client.request(method, path, body, headers)
            reply = client.getresponse()
            if (reply.status, bool(reply.read())) != (200, True):
                sys.exit(f"{path} answered {reply.status}")

    found = {what: reading(work, glossator, inputs) for what, inputs in READING.items()}
    for config in CGI:
        command = [glossator, "cgi", "--config", ROOT / "config" / config]
        found[f"a CGI request, {config}"] = whole_run(work, command, REQUEST)
    for number, (what, path, request) in enumerate(ROWS, 1):
        once(url, request, (work / "bodies" / path[1:]).read_text(), what)
        warm, counted = (WARM_LARGE, COUNTED_LARGE) if path == "/1m" else (WARM, COUNTED)
        call(request, warm)
        control(pid, "--instr=on")
        control(pid, "--zero")
        call(request, counted)
        control(pid, "--dump")
        control(pid, "--instr=off")
        found[what] = round(total_of(dumped(work / f"counted.{number}")) / counted)

    hold(found, WRITTEN, toolchain(), "instructions", sys.argv[5:] == ["--update"])


if __name__ == "__main__":
    main()
