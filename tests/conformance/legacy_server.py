#!/usr/bin/env python3
"""A plain old HTTP server, as glossator finds them: text, JSON, pictures, errors.

It knows nothing of MCP. The conformance and client tests put glossator in front
of it. Standard library only; loopback only; port 0 takes a free port. The first
line on standard output is the address: `legacy server on http://127.0.0.1:PORT`.
"""

import argparse
import io
import json
import os
import shlex
import struct
import subprocess
import time
import urllib.parse
import uuid
import wave
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CITIES = {
    "oslo": ("5.0", "Cloudy", "81"),
    "bergen": ("7.5", "Rain", "94"),
    "tromsø": ("-3.25", "Snow", "70"),
}

RECORD = (
    '{"id": 12345678901234567890, "name": "pump 7", "pressure": 1.0, '
    '"tags": ["north", "spare"], "since": null}\n'
)


def png(red, green, blue):
    """One pixel."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(bytes([0, red, green, blue]))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", pixel)
        + chunk(b"IEND", b"")
    )


def wav():
    """A hundredth of a second of a square wave."""
    out = io.BytesIO()
    with wave.open(out, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes((b"\x20" * 10 + b"\xe0" * 10) * 4)
    return out.getvalue()


JOBS = {}


class Job:
    """Work that takes its time: it does nothing, and says so in percent."""

    def __init__(self, seconds, kind):
        self.name = uuid.uuid4().hex
        self.begun, self.seconds, self.kind = time.monotonic(), seconds, kind
        self.stopped = False

    def done(self):
        return min(1.0, (time.monotonic() - self.begun) / self.seconds) if self.seconds > 0 else 1.0

    def report(self):
        if self.stopped:
            return "state: stopped\n"
        if self.done() < 1:
            return f"state: running\npercent: {int(self.done() * 100)}\n"
        if self.kind == "fail":
            return "state: failed\nreason: the machine is out of paper\n"
        return f"state: done\npercent: 100\nresult: it took {self.seconds:g} seconds\n"


class Legacy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "Legacy/1.4"
    # One write a reply: two would meet Nagle and a delayed acknowledgement.
    wbufsize = -1

    def log_message(self, *_):
        pass

    def answer(self, body, media_type="text/plain; charset=utf-8", status=200, headers=()):
        if isinstance(body, str):
            body = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_any(self):
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length) if length else b""
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query, keep_blank_values=True)
        path = urllib.parse.unquote(url.path)

        if path == "/motd":
            self.answer("This is a simple text response for testing.\n")
        elif path == "/camera":
            self.answer(png(200, 30, 30), "image/png")
        elif path == "/chime":
            self.answer(wav(), "audio/wav")
        elif path == "/notice":
            self.answer("This is an embedded resource content.\n")
        elif path == "/gate":
            self.answer("This is the content of the static text resource.")
        elif path.startswith("/things/"):
            thing = path[len("/things/"):]
            known = {"id": thing, "templateTest": True, "data": f"Data for ID: {thing}"}
            self.answer(json.dumps(known), "application/json")
        elif path == "/refuse":
            self.answer("This tool intentionally returns an error for testing\n", status=400)
        elif path == "/region":
            self.answer("region: " + "".join(query.get("name", [])) + "\n")
        elif path == "/contacts":
            self.answer(json.dumps({"saved": True, "contact": json.loads(sent or b"{}")}), "application/json")
        elif path.startswith("/weather/"):
            city = path[len("/weather/"):]
            found = CITIES.get(city.lower())
            if found:
                temp, sky, humidity = found
                self.answer(f"Station: {city}\nTemp: {temp}\nSky: {sky}\nHumidity: {humidity} %\n")
            else:
                self.answer(f"no station in {city}\n", status=404)
        elif path == "/record":
            self.answer(RECORD, "application/json")
        elif path == "/list":
            self.answer('[{"id": 1}, {"id": 2}]', "application/json")
        elif path == "/number":
            self.answer("42", "application/json")
        elif path == "/hidden-error":
            self.answer('{"success": false, "error": "the depot is closed"}', "application/json")
        elif path == "/crash":
            self.answer(
                "Traceback (most recent call last):\n"
                '  File "/srv/legacy/app.py", line 17, in crash\n'
                "psycopg2.OperationalError: password=hunter2 host=10.0.0.7\n",
                status=500,
            )
        elif path == "/greeting":
            self.answer("Hello, " + "".join(query.get("name", ["nobody"])) + "!\n")
        elif path == "/jobs" and self.command == "POST":
            job = Job(float("".join(query.get("seconds", ["0"]))), "".join(query.get("kind", ["work"])))
            JOBS[job.name] = job
            while len(JOBS) > 1000:
                JOBS.pop(next(iter(JOBS)))
            self.answer(f"job: {job.name}\n", status=202, headers=[("Location", f"/jobs/{job.name}")])
        elif path.startswith("/jobs/"):
            job = JOBS.get(path[len("/jobs/"):])
            if not job:
                self.answer("no such job\n", status=404)
            elif self.command == "DELETE":
                job.stopped = job.stopped or job.done() < 1
                self.answer("stopped\n")
            elif job.kind == "crash" and job.done() >= 1:
                # What a worker leaves behind that falls over.
                self.close_connection = True
            else:
                self.answer(job.report())
        elif path.startswith("/publish/") and self.command == "POST" and os.environ.get("PUBLISH_HOOK"):
            # A release: what goes with it is for the operator's hook to do.
            hook = [*shlex.split(os.environ["PUBLISH_HOOK"]), path[len("/publish/"):]]
            done = subprocess.run(hook, timeout=5).returncode == 0
            self.answer("published\n" if done else "not published\n", status=200 if done else 500)
        elif path == "/slow":
            time.sleep(min(float("".join(query.get("seconds", ["2"]))), 10.0))
            self.answer("at last\n")
        elif path.startswith("/echo"):
            self.answer(
                json.dumps(
                    {
                        "method": self.command,
                        "target": self.path,
                        "query": query,
                        "headers": {name.lower(): value for name, value in self.headers.items()},
                        "body": sent.decode("utf-8", "replace"),
                    }
                ),
                "application/json",
            )
        else:
            self.answer("nothing here\n", status=404)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--port", type=int, default=0, help="0 takes a free one")
    port = arguments.parse_args().port
    server = ThreadingHTTPServer(("127.0.0.1", port), Legacy)
    print(f"legacy server on http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
