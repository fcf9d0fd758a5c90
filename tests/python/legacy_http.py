"""What small legacy servers have in common: a silent handler that says a text, and a server that says where it is."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    def say(self, text, status=200):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def serve(handler):
    """On a free port of loopback; `address_in` of tests/lib.sh reads the line."""
    server = Server(("127.0.0.1", 0), handler)
    print(f"legacy server on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
