#!/usr/bin/env python3
"""The writing part of tests/bench/order; see there."""

import bisect
import collections
import http.client
import itertools
import pathlib
import re
import sys
import urllib.parse

from callgrind import control, dumped
from lackey import read_of
from load import ROWS

SCRIPT = pathlib.Path(__file__).parents[2] / "src/link/order.ld"
HEAD = """\
/* What stands side by side, before all others of its kind. Functions: those that a call passes, the costliest first, then those of
 * starts, then those of examples, the commonest first. Constants: those that calls and starts read, the smallest first. Written by
 * tests/bench/order, not by hand; build.rs says what it is good for. What is named here and not there is passed over. */
"""
# Of a route that says its input, and of one that does not.
FIRST = [("POST", f"/tools/{route}", {"Content-Type": "application/json"}, b'{"id": "1"}') for route in ("route_0", "route_1")]


def unhashed(section):
    """A pattern for the section of a function that holds for other versions of the compiler and of crates: `Cs1a2b3c_4core` has a
    hash of them."""
    if "._R" not in section:
        return section
    return re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", re.sub(r"(\.llvm)?\.\d+", "*", section))


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


def sections(map, kind):
    """Of the linker's map: where each section with one function or constant in it begins, and its bytes."""
    found = re.findall(rf"^ *(\w+) +\w+ +(\w+) +\d+ .*:\(({kind}\S*)\)$", map.read_text(), re.M)
    return [(int(begin, 16), int(size, 16), section) for begin, size, section in found]


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
    for method, path, headers, body in FIRST:
        first.request(method, path, body, headers)
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


def patterns(what, ran, sections):
    """For what ran or was read, of all sections."""
    size_of = {section: size for _, size, section in sections}
    print(f"{len(ran)} {what}, {sum(size_of[one] for one in ran):,} bytes of {sum(size_of.values()):,}")
    return list(dict.fromkeys(map(unhashed, ran)))


def functions(work, running):
    calls, *starts = passed(work, *running)
    examples = [dump.read_text() for dump in sorted(work.glob("*.examples"))]
    there = sections(work / "map", r"\.text\.")
    of_function = {re.sub(r"^\.text\.(unlikely\.|startup\.)?", "", section): section for _, _, section in there}
    in_turn = in_order(calls, starts, examples)
    ran = dict.fromkeys(of_function[function] for function in in_turn if function in of_function)
    return patterns("functions ran", ran, there)


def constants(work, program, routes, load):
    """What each start, and some calls after it, read that never changes."""
    read = read_of(program, routes, FIRST) | read_of(program, load, [request for *_, request in ROWS] * 2)
    there = sorted(sections(work / "map", r"\.rodata"))
    begins = [begin for begin, *_ in there]
    found = set()
    for place in read:
        begin, size, section = there[bisect.bisect(begins, place) - 1]
        if begin <= place < begin + size:
            found.add((size, section))
    return patterns("constants were read", [section for _, section in sorted(found)], there)


def write_passed(work, program, routes, load, *running):
    for kind, found in (("text", functions(work, running)), ("rodata", constants(work, program, routes, load))):
        if len(found) < 300:
            sys.exit(f"only {len(found)} patterns of .{kind}: are the program's symbols there?")
        (work / kind).write_text("\n".join(found))


def write_script(works):
    """Of what several builds pass, in which the compiler has put some things into other functions."""
    script = HEAD
    for kind in ("rodata", "text"):
        ranks = itertools.zip_longest(*((work / kind).read_text().split("\n") for work in works))
        found = dict.fromkeys(pattern for rank in ranks for pattern in rank if pattern)
        lines = "".join(f"    *({pattern})\n" for pattern in found)
        script += f"SECTIONS {{\n  .{kind}.first : {{\n{lines}  }}\n}}\nINSERT BEFORE .{kind};\n"
        print(f"{len(found)} patterns of .{kind} in {SCRIPT.name}")
    SCRIPT.write_text(script)


def main():
    what, *rest = sys.argv[1:]
    if what == "passed":
        write_passed(pathlib.Path(rest[0]), *rest[1:])
    else:
        write_script([pathlib.Path(work) for work in rest])


if __name__ == "__main__":
    main()
