#!/usr/bin/env python3
"""The counting part of tests/bench/instructions; see there."""

import http.client
import pathlib
import subprocess
import sys
import urllib.parse

from callgrind import control, dumped, total_of
from known import hold, toolchain
from load import ROWS, once
from routes import ALL, NONE, ROUTES, written

READING = {f"reading {ROUTES} routes": NONE, f"reading {ROUTES} routes that say their input": ALL}
WRITTEN = pathlib.Path(__file__).with_name("instructions.json")
# Calls before those that are counted, and those. Large replies have little that varies.
WARM, COUNTED = 60, 200
WARM_LARGE, COUNTED_LARGE = 3, 6


def reading(work, glossator, inputs):
    """What `glossator check` takes: most of what a start does."""
    config, counted = work / "routes.yaml", work / "checked"
    config.write_text(written(inputs=inputs))
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counted}", glossator, "check", "--config", config]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"glossator check: {done.stdout}{done.stderr}")
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
