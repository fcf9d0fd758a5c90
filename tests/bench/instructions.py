#!/usr/bin/env python3
"""The counting part of tests/bench/instructions; see there."""

import http.client
import json
import pathlib
import platform
import re
import subprocess
import sys
import time
import urllib.parse

from load import ROWS, once

ROUTES = 200
READING = f"reading {ROUTES} routes"
ROUTE = """\
  route_{number}:
    description: Thing number {number} of the legacy server.
    request: GET legacy/things/{{id}}/{number}
    reply:
      - when: {{ status: 404 }}
        error: "Nothing under {{{{ args.id }}}}."
      - extract:
          pairs:
            separator: ":"
            fields: {{ state: string, pressure: number, turns: integer }}
        content: "{{{{ structured.state }}}}, {{{{ structured.pressure }}}} bar"
"""
WRITTEN = pathlib.Path(__file__).with_name("instructions.json")
TOLERANCE = 0.10
# Calls before those that are counted, and those. Large replies have little that varies.
WARM, COUNTED = 60, 200
WARM_LARGE, COUNTED_LARGE = 3, 6


def control(pid, *flags):
    done = subprocess.run(["callgrind_control", *flags, pid], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"callgrind_control {' '.join(flags)}: {done.stdout}{done.stderr}")


def toolchain():
    """What counts depend on beside the program: another compiler makes other instructions."""
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout
    return f"rustc {rustc.split()[1]} for {platform.machine()}"


def counted_in(work, number):
    """The total of a dump, once it is there."""
    dump = work / f"counted.{number}"
    for _ in range(100):
        text = dump.read_text() if dump.exists() else ""
        totals = re.findall(r"^(?:totals|summary): (\d+)", text, re.M)
        if totals:
            return int(totals[-1])
        time.sleep(0.1)
    sys.exit(f"callgrind wrote no {dump.name}")


def reading(work, glossator):
    """What `glossator check` takes: most of what a start does."""
    config, counted = work / "routes.yaml", work / "checked"
    routes = "".join(ROUTE.format(number=number) for number in range(ROUTES))
    config.write_text(f"upstreams: {{ legacy: http://127.0.0.1:9 }}\nroutes:\n{routes}")
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counted}", glossator, "check", "--config", config]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"glossator check: {done.stdout}{done.stderr}")
    return int(re.findall(r"^(?:totals|summary): (\d+)", counted.read_text(), re.M)[-1])


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

    found = {READING: reading(work, glossator)}
    for number, (what, path, request) in enumerate(ROWS, 1):
        once(url, request, (work / "bodies" / path[1:]).read_text(), what)
        warm, counted = (WARM_LARGE, COUNTED_LARGE) if path == "/1m" else (WARM, COUNTED)
        call(request, warm)
        control(pid, "--instr=on")
        control(pid, "--zero")
        call(request, counted)
        control(pid, "--dump")
        control(pid, "--instr=off")
        found[what] = round(counted_in(work, number) / counted)

    made_by = toolchain()
    if sys.argv[5:] == ["--update"]:
        WRITTEN.write_text(json.dumps({"toolchain": made_by, "counts": found}, indent=2) + "\n")
    written = json.loads(WRITTEN.read_text())
    made_before, written = written["toolchain"], written["counts"]
    worse = 0
    print("| what | instructions | written down | |")
    print("|---|---|---|---|")
    for what, count in found.items():
        share = count / written[what] - 1
        worse += share > TOLERANCE
        word = "MORE" if share > TOLERANCE else "less: --update" if share < -TOLERANCE else ""
        print(f"| {what} | {count:,} | {written[what]:,} ({share:+.1%}) | {word} |")
    if made_before != made_by:
        print(f"Not compared: what is written down was counted with {made_before}, this with {made_by}.")
    elif worse:
        sys.exit(f"{worse} of these take a tenth more instructions than is written down, or worse")


if __name__ == "__main__":
    main()
