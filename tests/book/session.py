"""Runs a terminal session and draws it: `session.py FOLDER PICTURE [--check]`.

Each command runs in bash on a terminal of its own, in FOLDER, with a legacy server on port 9000 of loopback.
The picture is an SVG in which the lines appear one after the other, and then stay. With `--check`, it has to
show what the commands print now.
"""

import fcntl
import io
import os
import pty
import re
import signal
import struct
import sys
import termios
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

from legacy_http import Handler
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

COLUMNS = 100
LINES = 41
BYTES = 60_000

REPORTS = {
    "oslo": "Station: Oslo\nTemp: 5.0\nSky: Cloudy\n",
    "bergen": "Station: Bergen\nTemp: 7.5\nSky: Heavy rain\n",
    # Its thermometer is broken.
    "tromso": "Station: Tromso\nTemp: ---\nSky: Clear\n",
}

# A comment, and commands below it. One with `&` at its end runs on, and is waited for until it listens.
SESSION = [
    (
        "A legacy server returns text.",
        "curl 127.0.0.1:9000/report/oslo",
    ),
    (
        "Record three responses, one of them an error. glossator proposes a route with tests.",
        "curl -si '127.0.0.1:9000/report/{oslo,bergen,paris}' -o '#1.http'",
        """glossator infer *.http --name get_weather \\
    --url 'http://127.0.0.1:9000/report/{city}' > glossator.yaml""",
    ),
    (
        "Edit it. A mistake is reported with its place and a fix.",
        "sed -i 's/from: Temp/form: Temp/' glossator.yaml; glossator check",
        "sed -i 's/form: Temp/from: Temp/' glossator.yaml; glossator test | tail -1",
    ),
    (
        "Serve it. An MCP client calls the tool.",
        "glossator run 2> glossator.log &",
        """curl -s 127.0.0.1:8080/mcp --json '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params":
    {"name": "get_weather", "arguments": {"city": "bergen"}}}' | jq .result.structuredContent""",
    ),
    (
        "A response that can't be parsed is a tool error with a reason, here over REST.",
        """curl -s 127.0.0.1:8080/tools/get_weather --json '{"city": "tromso"}' | jq .content[0].text""",
    ),
]

# Legible on white and on black pages. Eight colours, each normal and bright.
NORMAL = "484f58 ff7b72 56d364 e3b341 79c0ff d2a8ff 56d4dd c9d1d9"
BRIGHT = "8b949e ffa198 7ee787 f2cc60 a5d6ff e2c5ff b3f0ff ffffff"


def colors(text):
    return [tuple(bytes.fromhex(color)) for color in text.split()]


THEME = TerminalTheme(*colors("0d1117 c9d1d9"), colors(NORMAL), colors(BRIGHT))

SVG = """<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" width="{width}">
<title>A terminal session with glossator</title>
<style>
.{unique_id}-matrix {{
    font: {char_height}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace
}}
.{unique_id}-title {{ font: bold 18px system-ui, sans-serif }}
.{unique_id}-matrix text {{ animation: appear 0s both }}
@keyframes appear {{ from {{ visibility: hidden }} }}
@media (prefers-reduced-motion: reduce) {{ .{unique_id}-matrix text {{ animation: none }} }}
{styles}
</style>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" class="{unique_id}-matrix">
{backgrounds}
{matrix}
</g>
</svg>
"""


class Legacy(Handler):
    def do_GET(self):
        report = REPORTS.get(self.path.rsplit("/", 1)[-1])
        self.say(report or "ERR 17 NO SUCH STATION\n", 200 if report else 404)


def run(command, folder, servers):
    """What a command prints on a terminal."""
    is_server = command.endswith("&")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvp("bash", ["bash", "-c", f"exec {command[:-1]}" if is_server else command])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    printed = b""
    while not (is_server and b"listening on" in printed and printed.endswith(b"\n")):
        try:
            more = os.read(terminal, 65536)
        except OSError:
            more = b""
        if not more:
            break
        printed += more
    if is_server and b"listening on" in printed:
        servers.append(pid)
    else:
        os.close(terminal)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        # `check` reports by its status what it found.
        if is_server or status and "check" not in command:
            sys.exit(f"status {status}: {command}\n{printed.decode()}")
    return printed.decode().replace("\r\n", "\n")


def record(folder):
    """Lines of the session, each with the second in which it appears."""
    lines, now, servers = [], 0.0, []

    def add(text, pause):
        nonlocal now
        now += pause
        # As a terminal wraps.
        for part in text.divide(range(COLUMNS, len(text), COLUMNS)):
            lines.append((part, now))

    try:
        for number, (comment, *commands) in enumerate(SESSION):
            if number:
                add(Text(""), 0)
            add(Text(f"# {comment}", "bright_black"), 0.3 if number else 0)
            for command in commands:
                first, *rest = command.split("\n")
                add(Text.assemble(("$ ", "bold green"), (first, "bold bright_white")), 0.7)
                for line in rest:
                    add(Text(line, "bold bright_white"), 0)
                pause = 0.4
                for line in run(command, folder, servers).splitlines():
                    add(Text.from_ansi(line), pause)
                    pause = 0.05
    finally:
        for pid in servers:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
    return lines


def draw(lines):
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor")
    for line, _ in lines:
        console.print(line, no_wrap=True, overflow="ignore", crop=False, highlight=False)
    svg = console.export_svg(
        title="glossator", theme=THEME, code_format=SVG, unique_id="session", font_aspect_ratio=0.6
    )

    def delay(found):
        return f'style="animation-delay:{lines[int(found[1])][1]:.2f}s"'

    return re.sub(r'clip-path="url\(#session-line-(\d+)\)"', delay, svg)


def words(svg):
    """The text of a picture, however it is coloured."""
    return "".join(re.findall(r">([^<>]*)</text>", svg)).replace("&#160;", " ")


def main(folder, picture, *flags):
    server = ThreadingHTTPServer(("127.0.0.1", 9000), Legacy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    lines = record(folder)
    svg = draw(lines)
    if len(lines) > LINES or len(svg) > BYTES:
        sys.exit(f"the picture is too large: {len(lines)} lines, {len(svg)} bytes")
    if "--check" not in flags:
        Path(picture).write_text(svg, encoding="utf-8")
        print(f"{len(lines)} lines, {len(svg)} bytes")
    elif words(svg) != words(Path(picture).read_text(encoding="utf-8")):
        shown = "\n".join(line.plain for line, _ in lines)
        sys.exit(f"the picture differs from what happens now; run tests/book/session. It prints:\n{shown}")
    else:
        print("1 passed, 0 failed")


main(*sys.argv[1:])
