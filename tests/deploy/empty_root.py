#!/usr/bin/env python3
"""Run the program as the image does: empty_root.py PROGRAM FOLDER, as root in namespaces of its own.

The root has the program, its configuration, /etc/resolv.conf, /dev/random and /dev/urandom in it, is
read-only, and the program runs in it as nobody. The upstream is found by its name, by DNS.
"""

import fcntl
import http.client
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

import legacy_http
import verdict
from verdict import report

program, root = sys.argv[1], pathlib.Path(sys.argv[2])
NOBODY = 65532


def loopback_up():
    # SIOCSIFFLAGS with IFF_UP: a new network namespace has it down.
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 1))


def answer_names(server):
    """Every name is 127.0.0.1, and has no IPv6 address."""
    while True:
        question, peer = server.recvfrom(512)
        end = question.index(b"\0", 12) + 5
        asks_a = question[end - 4 : end - 2] == b"\0\1"
        head = question[:2] + b"\x81\x80\0\1" + (b"\0\1" if asks_a else b"\0\0") + b"\0\0\0\0"
        found = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1" if asks_a else b""
        server.sendto(head + question[12:end] + found, peer)


class Legacy(legacy_http.Handler):
    def do_GET(self):
        self.say("all is well")


loopback_up()
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("127.0.0.1", 53))
threading.Thread(target=answer_names, args=(names,), daemon=True).start()
legacy = legacy_http.Server(("127.0.0.1", 9000), Legacy)
threading.Thread(target=legacy.serve_forever, daemon=True).start()

(root / "etc/glossator").mkdir(parents=True)
(root / "dev").mkdir()
shutil.copy(program, root / "glossator")
(root / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n")
(root / "etc/glossator/glossator.yaml").write_text(
    "version: 1\nupstreams: { old: http://old.test:9000 }\n"
    "routes:\n  state: { description: How it is., request: GET old/state }\n"
)
# Every container has these two.
for name, minor in {"random": 8, "urandom": 9}.items():
    os.mknod(root / "dev" / name, 0o20444, os.makedev(1, minor))
subprocess.run(["mount", "--bind", root, root], check=True)
subprocess.run(["mount", "-o", "remount,bind,ro", root], check=True)


def in_the_root():
    os.chroot(root)
    os.chdir("/")
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


child = subprocess.Popen(
    ["/glossator", "run", "--config", "/etc/glossator/glossator.yaml"], preexec_fn=in_the_root, env={}, cwd="/",
    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
)
answer = ""
for _ in range(100):
    try:
        client = http.client.HTTPConnection("127.0.0.1", 8080, timeout=5)
        client.request("POST", "/tools/state", "{}", {"Content-Type": "application/json"})
        answer = client.getresponse().read().decode()
        break
    except OSError:
        if child.poll() is not None:
            break
        time.sleep(0.1)
uid = ""
try:
    uid = pathlib.Path(f"/proc/{child.pid}/status").read_text().split("Uid:")[1].split()[0]
except (OSError, IndexError):
    pass
child.terminate()
said, _ = child.communicate(timeout=30)
here = sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())
report(f"an empty, read-only root ({', '.join(here)}): a call is answered", "all is well" in answer, answer or said)
report("... by nobody", uid == str(NOBODY), uid)
report("... and SIGTERM ends it with status 0", child.returncode == 0, f"{child.returncode} {said}")
verdict.end()
