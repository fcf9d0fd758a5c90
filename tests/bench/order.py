#!/usr/bin/env python3
"""The writing part of tests/bench/order; see there."""

import collections
import http.client
import pathlib
import re
import sys
import urllib.parse

from callgrind import control, dumped
from load import ROWS

SCRIPT = pathlib.Path(__file__).parents[2] / "src/link/order.ld"
HEAD = """\
/* Functions that stand side by side, before all others: those that a call passes, the costliest first, then those of starts and
 * of examples, the commonest first. Written by tests/bench/order, not by hand; build.rs says what it is good for. What is named
 * here and not there is passed over. */
SECTIONS {
  .text.first : {
"""
TAIL = """\
  }
}
INSERT BEFORE .text;
"""
# What the kernel brings in at once around a function that is called and not yet there. A name without the hash of its compilation
# stands for all that a generic function was compiled to: where those that did not run would take more room than this for each
# that did, they are not worth it.
WINDOW_BYTES = 64 * 1024


def unhashed(section):
    """A pattern for the section of a function that holds for other versions of the compiler and of crates: `…17h0123456789abcdefE`
    has a hash of them in one way of writing names, `Cs1a2b3c_4core` in the other."""
    plain = re.sub(r"(\.llvm)?\.\d+$", "*", section)
    plain = re.sub(r"17h[0-9a-f]{16}E\*?$", "17h*", plain)
    return re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", plain) if "._R" in plain else plain


def cost_by_function(dump):
    """Of one of callgrind's dumps: the instructions of each function, without those that it calls."""
    names, costs, function, of_callee = {}, collections.Counter(), None, False
    for line in dump.splitlines():
        if named := re.match(r"(c?)fn=\((\d+)\)(?: (.*))?", line):
            is_callee, number, name = named.groups()
            if name:
                # A recursive function has its depth behind it.
                names[number] = name.split("'")[0]
            if not is_callee:
                function = names[number]
        elif line.startswith("calls="):
            of_callee = True
        elif re.match(r"[\d+*-]", line):
            if not of_callee:
                costs[function] += int(line.split()[1])
            of_callee = False
    return costs


def sections(map):
    """Of the linker's map: the bytes of each section with one function in it."""
    found = re.findall(r"^ *\w+ +\w+ +(\w+) +\d+ .*:\((\.text\.\S+)\)$", map.read_text(), re.M)
    return {section: int(size, 16) for size, section in found}


def passed(work, start_pid, calls_pid, url):
    """What ran, as dumps: of calls, of two starts."""
    address = urllib.parse.urlsplit(url)
    client = http.client.HTTPConnection(address.hostname, address.port, timeout=120)

    def call(times):
        for what, _, (method, path, headers, body) in ROWS * times:
            client.request(method, path, body, headers)
            reply = client.getresponse()
            if (reply.status, bool(reply.read())) != (200, True):
                sys.exit(f"{what}: {path} answered {reply.status}")

    control(start_pid, "--dump")
    # The first calls make what later ones find.
    call(5)
    control(calls_pid, "--dump")
    call(30)
    control(calls_pid, "--dump")
    return [dumped(work / name) for name in ("calls.2", "start.1", "calls.1")]


def in_order(calls, others):
    """The functions that ran: those of calls by what they cost, the rest by how many of the other dumps they are in, so that what
    few configurations need does not lie between what all do."""
    costs = cost_by_function(calls)
    everywhere = collections.Counter(function for dump in others for function in cost_by_function(dump))
    ranked = costs.most_common() + everywhere.most_common()
    return list(dict.fromkeys(function for function, _ in ranked))


def patterns(sections, functions):
    """For the functions that ran, of the sections and their bytes."""
    of_function = {re.sub(r"^\.text\.(unlikely\.|startup\.)?", "", section): section for section in sections}
    ran = dict.fromkeys(of_function[function] for function in functions if function in of_function)
    count, idle = collections.Counter(map(unhashed, ran)), collections.Counter()
    for section, bytes in sections.items():
        idle[unhashed(section)] += 0 if section in ran else bytes
    print(f"{len(ran)} functions ran, {sum(sections[section] for section in ran):,} bytes of {sum(sections.values()):,}")
    return [pattern for pattern in count if idle[pattern] <= count[pattern] * WINDOW_BYTES]


def main():
    work, *running = pathlib.Path(sys.argv[1]), *sys.argv[2:5]
    calls, *starts = passed(work, *running)
    examples = [pathlib.Path(dump).read_text() for dump in sys.argv[5:]]
    found = patterns(sections(work / "map"), in_order(calls, starts + examples))
    if len(found) < 500:
        sys.exit(f"only {len(found)} patterns: are the program's symbols there?")
    SCRIPT.write_text(HEAD + "".join(f"    *({pattern})\n" for pattern in found) + TAIL)
    print(f"{len(found)} patterns in {SCRIPT.name}")


if __name__ == "__main__":
    main()
