#!/usr/bin/env python3
"""The writing part of tests/bench/order; see there."""

import collections
import http.client
import itertools
import pathlib
import re
import sys
import urllib.parse

from callgrind import control, dumped
from load import ROWS

SCRIPT = pathlib.Path(__file__).parents[2] / "src/link/order.ld"
HEAD = """\
/* Functions that stand side by side, before all others: those that a call passes, the costliest first, then those of starts, then
 * those of examples, the commonest first. Written by tests/bench/order, not by hand; build.rs says what it is good for. What is
 * named here and not there is passed over. */
SECTIONS {
  .text.first : {
"""
TAIL = """\
  }
}
INSERT BEFORE .text;
"""


def unhashed(section):
    """A pattern for the section of a function that holds for other versions of the compiler and of crates: `Cs1a2b3c_4core` has a
    hash of them."""
    plain = re.sub(r"(\.llvm)?\.\d+$", "*", section)
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


def client_of(url):
    address = urllib.parse.urlsplit(url)
    return http.client.HTTPConnection(address.hostname, address.port, timeout=120)


def passed(work, start_pid, start_url, calls_pid, calls_url):
    """What ran, as dumps: of calls, of two starts with their first answers."""
    client = client_of(calls_url)

    def call(times):
        for what, _, (method, path, headers, body) in ROWS * times:
            client.request(method, path, body, headers)
            reply = client.getresponse()
            if (reply.status, bool(reply.read())) != (200, True):
                sys.exit(f"{what}: {path} answered {reply.status}")

    first = client_of(start_url)
    first.request("POST", "/tools/route_0", b'{"id": "1"}', {"Content-Type": "application/json"})
    first.getresponse().read()
    control(start_pid, "--dump")
    # The first calls make what later ones find.
    call(5)
    control(calls_pid, "--dump")
    call(30)
    control(calls_pid, "--dump")
    return [dumped(work / name) for name in ("calls.2", "start.1", "calls.1")]


def in_order(calls, starts, examples):
    """The functions that ran: those of calls by what they cost, then those of starts, then those of examples, each by how many
    dumps they are in, so that what few configurations need does not lie between what all do."""

    def commonest(dumps):
        return collections.Counter(function for dump in dumps for function in cost_by_function(dump)).most_common()

    ranked = cost_by_function(calls).most_common() + commonest(starts) + commonest(examples)
    return list(dict.fromkeys(function for function, _ in ranked))


def patterns(sections, functions):
    """For the functions that ran, of the sections and their bytes."""
    of_function = {re.sub(r"^\.text\.(unlikely\.|startup\.)?", "", section): section for section in sections}
    ran = dict.fromkeys(of_function[function] for function in functions if function in of_function)
    print(f"{len(ran)} functions ran, {sum(sections[section] for section in ran):,} bytes of {sum(sections.values()):,}")
    return list(dict.fromkeys(map(unhashed, ran)))


def write_passed(work, *running):
    calls, *starts = passed(work, *running)
    examples = [dump.read_text() for dump in sorted(work.glob("*.examples"))]
    found = patterns(sections(work / "map"), in_order(calls, starts, examples))
    if len(found) < 500:
        sys.exit(f"only {len(found)} patterns: are the program's symbols there?")
    (work / "passed").write_text("\n".join(found))


def write_script(works):
    """Of what several builds pass, in which the compiler has put some things into other functions."""
    ranks = itertools.zip_longest(*((work / "passed").read_text().split("\n") for work in works))
    found = dict.fromkeys(pattern for rank in ranks for pattern in rank if pattern)
    SCRIPT.write_text(HEAD + "".join(f"    *({pattern})\n" for pattern in found) + TAIL)
    print(f"{len(found)} patterns in {SCRIPT.name}")


def main():
    what, *rest = sys.argv[1:]
    if what == "passed":
        write_passed(pathlib.Path(rest[0]), *rest[1:])
    else:
        write_script([pathlib.Path(work) for work in rest])


if __name__ == "__main__":
    main()
