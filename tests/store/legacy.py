#!/usr/bin/env python3
"""A legacy server that counts how often it is asked. Its first line on standard output is its address."""

import collections
import threading
import time

from legacy_http import Handler, serve

counts = collections.Counter()
lock = threading.Lock()


class Counting(Handler):
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
        self.say(text)


serve(Counting)
