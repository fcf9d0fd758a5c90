"""Callgrind, asked from outside while the program runs."""

import re
import subprocess
import sys
import time


def control(pid, *flags):
    done = subprocess.run(["callgrind_control", *flags, pid], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"callgrind_control {' '.join(flags)}: {done.stdout}{done.stderr}")


def total_of(text):
    """All instructions of a dump; nothing while it is being written."""
    totals = re.findall(r"^(?:totals|summary): (\d+)", text, re.M)
    return int(totals[-1]) if totals else None


def dumped(dump):
    """The text of a dump, once it is there."""
    for _ in range(100):
        text = dump.read_text() if dump.exists() else ""
        if total_of(text) is not None:
            return text
        time.sleep(0.1)
    sys.exit(f"callgrind wrote no {dump.name}")
