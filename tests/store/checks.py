#!/usr/bin/env python3
"""The checking part of tests/store/run; see there. Prints a line for each check."""

import collections
import os
import pathlib
import random
import signal
import sys
import threading
import time
import urllib.request

import verdict
from verdict import report
from world import Client, Stream, World, in_parallel, until

kind, work, *programs = sys.argv[1:]
world = World(kind, pathlib.Path(work) / kind, *programs)
LEGACY = os.environ["LEGACY_URL"]


def say(text):
    print(f"        {text}", flush=True)


def asked(of):
    with urllib.request.urlopen(f"{LEGACY}/counted/{of}", timeout=5) as reply:
        return int(reply.read())


# -- What is shared ---------------------------------------------------------------------


def limits(*tools):
    for tool in tools:
        replies = in_parallel(12, lambda _: [Client(world.port).rest(tool) for _ in range(10)])
        replies = [reply for of_one in replies for reply in of_one]
        statuses = collections.Counter(status for status, _, _ in replies)
        report(f"{tool}: of 120 calls at once 40 are let through", statuses == {200: 40, 429: 80}, statuses)
        served = collections.Counter(headers["X-Replica"] for status, headers, _ in replies if status == 200)
        report("... by three replicas together", len(served) == 3, served)
        again = [int(headers["Retry-After"]) for status, headers, _ in replies if status == 429]
        report("... and the others are told when to come again", all(1 <= wait <= 90 for wait in again), sorted(again)[-3:])


def fast_limit():
    begun, seconds = time.monotonic(), 3

    def hammer(_):
        client, through = Client(world.port), 0
        while time.monotonic() < begun + seconds:
            through += client.rest("twenty_a_second")[0] == 200
            time.sleep(0.01)
        return through

    through = sum(in_parallel(9, hammer))
    took = time.monotonic() - begun
    most = 20 + 20 * took
    report("twenty a second and a burst of twenty, and no more", 0.8 * most <= through <= most + 1, (through, most))


def cache():
    first = Client(world.port).rest("kept", {"of": "pages"})
    replies = [Client(world.port).rest("kept", {"of": "pages"}) for _ in range(30)]
    report("a reply that one replica keeps all give", asked("pages") == 1, asked("pages"))
    same = all("pages 1" in text and int(headers["Age"]) >= 0 for _, headers, text in replies)
    report("... word for word, with its age", "pages 1" in first[2] and same, replies[:2])
    report("... three replicas do", len({headers["X-Replica"] for _, headers, _ in replies}) == 3)
    # Many at once, of something new: each replica asks once at most, and then all have it.
    in_parallel(30, lambda _: Client(world.port).rest("kept", {"of": "burst"}))
    report("of thirty calls at once each replica asks once at most", 1 <= asked("burst") <= 3, asked("burst"))


UPDATED = "notifications/resources/updated"


def listen(port):
    client = Client(port)
    headers = {}
    client.send = lambda _, __, found, body: headers.update(found, body=body)
    client.mcp("2026-07-28", "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["news://today"]}})
    return Stream(port, "POST", headers, headers.pop("body"))


def older_stream(port, session):
    headers = {"Accept": "text/event-stream", "MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": session}
    return Stream(port, "GET", headers)


def subscriptions():
    session = Client(world.port).open_session()
    newer = [listen(port) for port in world.ports]
    for stream in newer:
        until("the acknowledgement", lambda: stream.told)
    older = older_stream(world.ports[0], session)
    params = {"uri": "news://today"}
    status, _, text = Client(world.ports[1]).mcp("2025-11-25", "resources/subscribe", params, session=session)
    report("a subscription is taken by a replica without the stream", status == 200 and '"result":{}' in text, text)
    time.sleep(1)
    urllib.request.urlopen(f"{LEGACY}/count/edition", timeout=5).read()
    begun = time.monotonic()
    for stream in [*newer, older]:
        until("a change", lambda: stream.count(UPDATED))
    report("a change is told on every stream of both eras", True)
    say(f"the last one hears of it after {time.monotonic() - begun:.2f} s")
    time.sleep(1)
    counts = [stream.count(UPDATED) for stream in [*newer, older]]
    report("... once", counts == [1] * 4, counts)
    # The replica with the stream is killed; another one knows what the session subscribed to.
    world.replicas[0].kill()
    older = older_stream(world.ports[2], session)
    world.replicas[0].start()
    until("it is there again", lambda: Client(world.ports[0]).send("GET", "/health", {})[0] == 200)
    time.sleep(0.7)
    urllib.request.urlopen(f"{LEGACY}/count/edition", timeout=5).read()
    until("a change", lambda: older.count(UPDATED))
    report("a session goes on at another replica when its own is killed", True)


# -- What is lost -----------------------------------------------------------------------


def killed_replicas():
    ends, calls, lock = time.monotonic() + 14, [], threading.Lock()
    kills = collections.defaultdict(list)
    session = Client(world.port).open_session()

    def load(number):
        count = 0
        while time.monotonic() < ends:
            # HAProxy breaks off a later request of a connection without a word, and so does not say who was to answer it.
            client = Client(world.port)
            kind, text, count = number % 3, f"{number}-{count}", count + 1
            arguments = {"text": text}
            begun = time.monotonic()
            if kind == 0:
                status, headers, reply = client.rest("echo", arguments)
            else:
                revision, of = [("2026-07-28", None), ("2025-11-25", session)][kind - 1]
                params = {"name": "echo", "arguments": arguments}
                status, headers, reply = client.mcp(revision, "tools/call", params, session=of)
            client.close()
            good = status == 200 and f'"{text}"' in reply and '"isError":true' not in reply.replace(" ", "")
            with lock:
                calls.append((headers.get("X-Replica"), kind, begun, time.monotonic(), good, status, reply))

    def killer():
        while time.monotonic() < ends - 2:
            time.sleep(random.uniform(0.3, 0.8))
            number = random.randrange(3)
            before = time.monotonic()
            world.replicas[number].kill()
            kills[f"replica-{number}"].append((before, time.monotonic()))
            world.replicas[number].start()
            until("it is there again", lambda: Client(world.ports[number]).send("GET", "/health", {})[0] == 200)

    murdering = threading.Thread(target=killer)
    murdering.start()
    in_parallel(24, load)
    murdering.join()
    failed = [call for call in calls if not call[4]]
    unexplained = []
    every_kill = [kill for of_one in kills.values() for kill in of_one]
    for replica, _, begun, ended, _, status, reply in failed:
        # HAProxy with several threads says nothing at all, and so not whose it was, where a replica ends within the
        # moment in which it is connected to (its log has `-1 SD` for that one): a kill of any is taken for its.
        of_its_own = kills.get(replica, []) if replica else every_kill
        if not any(begun <= after and before <= ended for before, after in of_its_own):
            unexplained.append((replica, status, reply[:200]))
    count = sum(map(len, kills.values()))
    say(f"{len(calls)} calls, {count} kills, {len(failed)} calls in flight on a killed replica lost")
    report("every replica was killed under load", len(kills) == 3 and count >= 6, dict(kills))
    report("every call that failed was in flight on a replica that was killed", not unexplained, unexplained[:3])
    for kind, name in enumerate(["REST", "MCP 2026-07-28", "MCP 2025-11-25"]):
        of_kind = [call for call in calls if call[1] == kind]
        report(f"... {name}: {len(of_kind)} calls", len(of_kind) > 200, len(of_kind))


# -- Without the store ------------------------------------------------------------------


def without_store(what, leave, come_back):
    kept = {"of": f"own-{what.split()[-1]}"}
    Client(world.port).rest("kept", kept)
    calls, ends, lock = [], [None], threading.Lock()

    def load(number):
        client = Client(world.port)
        while ends[0] is None or time.monotonic() < ends[0]:
            tool = ["echo", "kept", "refused"][number % 3]
            arguments = {"echo": {"text": "x"}, "kept": kept, "refused": {}}[tool]
            begun = time.monotonic()
            status, _, text = client.rest(tool, arguments)
            with lock:
                calls.append((tool, begun, time.monotonic() - begun, status, text))

    loading = threading.Thread(target=lambda: in_parallel(12, load))
    loading.start()
    time.sleep(0.5)
    gone = time.monotonic()
    leave()
    world.until_store(False)
    seen = time.monotonic()
    say(f"{what}: every replica knows after {seen - gone:.2f} s")
    ready = [world.ready(number) for number in range(3)]
    report(f"{what}: replicas stay ready, and say so", all(one["ready"] for one in ready), ready)
    report("... and on /metrics", world.metric(0, "glossator_shared_state_up") == 0)
    through = [sum(Client(port).rest("allowed")[0] == 200 for _ in range(15)) for port in world.ports]
    report("... `allow`: everybody is let through", through == [15] * 3, through)
    through = [sum(Client(port).rest("local")[0] == 200 for _ in range(15)) for port in world.ports]
    report("... `local`: each replica counts for itself", all(count <= 10 for count in through), through)
    say(f"local: {through} let through by the three")
    back = time.monotonic()
    come_back()
    world.until_store(True)
    again = time.monotonic()
    say(f"{what}: every replica is back after {again - back:.2f} s")
    time.sleep(0.5)
    ends[0] = time.monotonic()
    loading.join()
    plain = [call for call in calls if call[0] in ("echo", "kept")]
    bad = [call for call in plain if call[3] != 200]
    report("... calls that need no limit fail not once", len(plain) > 200 and not bad, (len(plain), bad[:2]))
    # One that began just before the store came back may be answered when it is there.
    refused = {call[3] for call in calls if call[0] == "refused" and seen < call[1] and call[1] + call[2] < back}
    report("... `refuse`: nobody is let through", refused == {503}, refused)
    after = {call[3] for call in calls if call[0] == "refused" and call[1] > again}
    report("... and everybody again when it is back", after == {200}, after)
    longest = max((call[2] for call in calls if gone < call[1] < seen), default=0)
    later = [call[2] for call in calls if seen < call[1] < back and call[0] == "refused"]
    report("... a call waits for it as long as its timeout at most", longest < 0.25 + 0.4, longest)
    report("... and not at all once it is known", later and sorted(later)[len(later) // 2] < 0.05, later[:3])
    say(f"longest call {longest * 1000:.0f} ms before it was known, then {max(later, default=0) * 1000:.0f} ms")


def restarted():
    world.store.start()


def another_primary():
    """A server that takes writes is killed, and another one of the store takes over."""
    calls, ends = [], threading.Event()

    def load(number):
        client, count = Client(world.port), 0
        while not ends.is_set():
            # Names all over a Cluster.
            count += 1
            tool, arguments = [("echo", {"text": "x"}), ("kept", {"of": f"own-{number}-{count}"})][number % 2]
            calls.append(client.rest(tool, arguments)[::2])

    def failed():
        return sum(world.metric(number, 'glossator_shared_state_operations_total{result="failed"}') for number in range(3))

    def is_counted(port):
        return all(Client(port).rest("refused")[0] == 200 for _ in range(10))

    primaries, before = world.primaries(), failed()
    loading = threading.Thread(target=lambda: in_parallel(6, load))
    loading.start()
    killed = time.monotonic()
    primaries[0][1].kill()
    until("what is lost to be seen", lambda: failed() > before)
    until("another primary", lambda: len(world.primaries()) == len(primaries))
    for port in world.ports:
        until("limits to be counted again", lambda: is_counted(port))
    world.until_store(True)
    report("another server takes over from a primary that is killed", primaries[0] not in world.primaries())
    say(f"limits are counted again after {time.monotonic() - killed:.1f} s")
    ends.set()
    loading.join()
    bad = [call for call in calls if call[0] != 200]
    report("... calls that need no limit fail not once", len(calls) > 100 and not bad, (len(calls), bad[:2]))
    limits("later_forty_an_hour")
    subscriptions()


try:
    world.start()
    limits("forty_an_hour", "caller_forty_an_hour")
    cache()
    subscriptions()
    if kind == "server":
        fast_limit()
        killed_replicas()
        without_store("the store is killed", world.store.kill, restarted)
        stop, go = signal.SIGSTOP, signal.SIGCONT
        without_store("the store hangs", lambda: world.store.send(stop), lambda: world.store.send(go))
        told = [line for line in world.replicas[1].log.read_text().splitlines() if '"shared state ' in line]
        gone = [line for line in told if "connection lost" in line]
        report("the log has a line when it goes and one when it comes", len(gone) == 2 and len(told) <= 20, told)
    else:
        another_primary()
finally:
    world.end()
verdict.end()
