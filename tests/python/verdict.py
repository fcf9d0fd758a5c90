"""What a check found, a line each, as `count_lines` of tests/lib.sh counts them."""

import sys

_broken = 0


def report(what, good, why=""):
    global _broken
    # At once: whoever kills the script shall see how far it came.
    if good:
        print(f"  passed  {what}", flush=True)
    else:
        _broken += 1
        print(f"  FAILED  {what}: {why}", flush=True)


def equal(what, expected, found):
    report(what, expected == found, f"expected {expected!r}, found {found!r}")


def end():
    """Ends the script: with status 0 when every check passed."""
    sys.exit(1 if _broken else 0)
