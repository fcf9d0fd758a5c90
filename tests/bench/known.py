"""Numbers that are written down, and those found now held against them."""

import json
import platform
import subprocess
import sys

TOLERANCE = 0.10


def toolchain():
    """What such numbers depend on beside the program: another compiler makes another one."""
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout
    return f"rustc {rustc.split()[1]} for {platform.machine()}"


def hold(found, path, made_by, unit, update):
    """Prints how the numbers found compare with those in a file, and ends with an error where one is a tenth more; with `update`
    writes them there first."""
    if update:
        path.write_text(json.dumps({"made_by": made_by, "numbers": found}, indent=2) + "\n")
    known = json.loads(path.read_text())
    worse = 0
    print(f"| what | {unit} | written down | |")
    print("|---|---|---|---|")
    for what, number in found.items():
        before = known["numbers"].get(what)
        if before is None:
            sys.exit(f"{what}: nothing is written down for it; --update does")
        share = number / before - 1
        worse += share > TOLERANCE
        word = "MORE" if share > TOLERANCE else "less: --update" if share < -TOLERANCE else ""
        print(f"| {what} | {number:,} | {before:,} ({share:+.1%}) | {word} |")
    if known["made_by"] != made_by:
        print(f"Not compared: what is written down was found with {known['made_by']}, this with {made_by}.")
    elif worse:
        sys.exit(f"{worse} of these are a tenth more than is written down, or worse")
