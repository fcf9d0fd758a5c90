#!/usr/bin/env python3
"""The functions of config/seeds/kuniumi as a plain HTTP server, and a page that comes in two parts.

GET /page sends its first part, and the second when somebody asks for GET /go. Never heard of CGI or MCP.
"""

import json
import threading

from legacy_http import Handler, serve

go = threading.Event()


class Functions(Handler):
    def do_GET(self):
        if self.path == "/go":
            go.set()
            return self.say("gone on")
        if self.path != "/page":
            return self.say("no such page", 404)
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
            self.say(str(arguments["x"] + arguments["y"]))
        elif name == "Divide" and arguments["y"] == 0:
            self.say("Error: division by zero")
        elif name == "Swap":
            self.say(f"[{arguments['y']} {arguments['x']}]")
        else:
            self.say(f"Function not found: {name}\n", 404)


serve(Functions)
