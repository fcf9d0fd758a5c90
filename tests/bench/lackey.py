"""Lackey, one of valgrind's tools: it tells of every read."""

import http.client
import os
import pathlib
import re
import subprocess
import sys
import threading

# Valgrind has the program below this, and all else above.
IMAGE_END = 0x4000000


def collect(trace, addresses):
    """Of the lines that it writes, those of reads of the program's image."""
    with os.fdopen(trace, "rb") as lines:
        for line in lines:
            # " L 001c8000,8" is one, " M 001c8000,8" one with a write; addresses above the image have more digits.
            if line[:3] in (b" L ", b" M ") and line[11:12] == b",":
                addresses.add(int(line[3:11], 16))


def read_of(program, config, requests):
    """Where in its image a run reads: its start, and requests after it."""
    trace, into = os.pipe()
    command = ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-fd={into}"]
    command += [program, "run", "--config", config, "--listen", "127.0.0.1:0"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=[into], text=True)
    os.close(into)
    addresses = set()
    collecting = threading.Thread(target=collect, args=(trace, addresses))
    collecting.start()
    try:
        said = running.stdout.readline()
        if not (address := re.search(r"http://(\S+)", said)):
            sys.exit(f"{program} did not say where it listens: {said}")
        client = http.client.HTTPConnection(address[1], timeout=120)
        for method, path, headers, body in requests:
            client.request(method, path, body, headers)
            client.getresponse().read()
        maps = pathlib.Path(f"/proc/{running.pid}/maps").read_text()
    finally:
        running.kill()
        running.wait()
        collecting.join()
    begin = int(re.search(rf"^(\w+)-.* 0+ .*{re.escape(program)}$", maps, re.M)[1], 16)
    return {address - begin for address in addresses if begin <= address < IMAGE_END}
