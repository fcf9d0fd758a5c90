#!/usr/bin/env python3
"""The functions of config/seeds/kuniumi as a plain HTTP server, and a page that comes in two parts.

GET /page sends its first part, and the second when somebody asks for GET /go. Never heard of CGI or MCP.
"""

import http.server
import json
import threading

go = threading.Event()


class Functions(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/go":
            go.set()
            return self.say(200, "gone on")
        if self.path != "/page":
            return self.say(404, "no such page")
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"first\n")
        self.wfile.flush()
        go.wait(20)
        go.clear()
        self.wfile.write(b"second\n")

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        arguments = json.loads(self.rfile.read(length) or "{}")
        name = self.path.removeprefix("/functions/")
        if name == "Add":
            self.say(200, str(arguments["x"] + arguments["y"]))
        elif name == "Divide" and arguments["y"] == 0:
            self.say(200, "Error: division by zero")
        elif name == "Swap":
            self.say(200, f"[{arguments['y']} {arguments['x']}]")
        else:
            self.say(404, f"Function not found: {name}\n")

    def say(self, status, text):
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Functions)
print(f"on http://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()
