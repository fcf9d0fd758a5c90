#!/usr/bin/env python3
"""A legacy server that counts how often it is asked. Its first line on standard output is its address."""

import collections
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

counts = collections.Counter()
lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        kind, _, rest = self.path.lstrip("/").partition("/")
        if kind == "echo":
            time.sleep(0.02)
            text = rest
        elif kind == "counted":
            text = str(counts[rest])
        elif kind == "news":
            text = f"edition {counts['edition']}"
        else:
            with lock:
                counts[rest] += 1
                text = f"{rest} {counts[rest]}"
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


server = Server(("127.0.0.1", 0), Handler)
print(f"legacy server on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
