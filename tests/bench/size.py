#!/usr/bin/env python3
"""The measuring part of tests/bench/size; see there."""

import http.client
import pathlib
import platform
import re
import socket
import statistics
import subprocess
import sys
import time

from known import hold, toolchain
from routes import ALL, JQ_ROUTE, NONE, ROUTE, ROUTES, written

WRITTEN = pathlib.Path(__file__).with_name("size.json")
STARTS = 7
# Idle is who has had the same memory for so long, in seconds.
STILL = 0.5


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def first_answer(port):
    """Of a route, as soon as there is one."""
    for _ in range(10_000):
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            client.request("POST", "/tools/route_0", b'{"id": "1"}', {"Content-Type": "application/json"})
            return client.getresponse().read()
        except ConnectionRefusedError:
            time.sleep(0.001)
    sys.exit("glossator does not answer")


def memory(pid):
    """Resident bytes by kind."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return {kind: int(kilobytes) * 1024 for kind, kilobytes in re.findall(r"^(VmRSS|RssAnon|RssFile):\s+(\d+)", status, re.M)}


def when_idle(pid):
    since, last = time.monotonic(), memory(pid)
    while time.monotonic() - since < STILL:
        time.sleep(0.05)
        now = memory(pid)
        if now != last:
            since, last = time.monotonic(), now
    return last


def once(glossator, config):
    """One start: seconds to the first answer, and the memory after it."""
    port = free_port()
    began = time.perf_counter()
    command = [glossator, "run", "--config", config, "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        answer = first_answer(port)
        took = time.perf_counter() - began
        # The server has no such page, and the route a rule for that.
        if b"Nothing under 1." not in answer:
            sys.exit(f"not what was to be answered: {answer.decode()}")
        return took, when_idle(process.pid)
    finally:
        process.kill()
        process.wait()


def starts(glossator, config, what):
    """Of some starts, the median of each kind of memory."""
    times, memories = zip(*(once(glossator, config) for _ in range(STARTS)))
    print(f"First answer {statistics.median(times) * 1000:.0f} ms after the start, with {what}.\n")
    return {kind: statistics.median(memory[kind] for memory in memories) for kind in memories[0]}


def main():
    work, glossator, upstream = pathlib.Path(sys.argv[1]), *sys.argv[2:4]
    found = {"on disk": pathlib.Path(glossator).stat().st_size}
    shapes = [
        (f"{ROUTES} routes", NONE, ROUTE),
        (f"{ROUTES} routes that say their input", ALL, ROUTE),
        (f"{ROUTES} routes with jq", NONE, JQ_ROUTE),
    ]
    for what, inputs, route in shapes:
        config = work / "routes.yaml"
        config.write_text(written(upstream, inputs, route))
        memory = starts(glossator, config, what)
        resident = f"resident with {what}"
        found |= {
            resident: memory["VmRSS"],
            f"{resident}, of its own": memory["RssAnon"],
            f"{resident}, of files": memory["RssFile"],
        }
    # How much of a file is brought in at once is the kernel's choice.
    kernel = ".".join(platform.release().split(".")[:2])
    hold(found, WRITTEN, f"{toolchain()}, Linux {kernel}", "bytes", sys.argv[4:] == ["--update"])


if __name__ == "__main__":
    main()
