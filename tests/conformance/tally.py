#!/usr/bin/env python3
"""Sum up one run of the suite: tally.py NAME RESULTS_FOLDER EXPECTED_FAILURES LOG.

Judges as the suite does (a warning is a failure), so that the closing line counts
what counts: a scenario on the list of expected failures is skipped, unless it
passes, which is a failure of the list.
"""

import json
import pathlib
import re
import sys

BAD = ("FAILURE", "WARNING")


def expected(path):
    whole, single = set(), set()
    for line in pathlib.Path(path).read_text().splitlines():
        entry = re.fullmatch(r"\s*- ([^\s#]+)\s*(?:#.*)?", line)
        if entry:
            (single if ":" in entry[1] else whole).add(entry[1])
    return whole, single


def main():
    name, folder, list_path, log_path = sys.argv[1:]
    whole, single = expected(list_path)
    passed = failed = skipped = 0
    announced = re.search(r"\((\d+) scenarios\)", pathlib.Path(log_path).read_text())
    files = sorted(pathlib.Path(folder).glob("**/checks.json"))
    if not announced or int(announced[1]) != len(files):
        failed += 1
        print(f"  FAILED    {announced[1] if announced else 'no'} scenarios announced, {len(files)} have a result")
    for file in files:
        scenario = re.sub(r"^server-(.*?)-\d{4}-\d\d-\d\dT.*$", r"\1", file.parent.name)
        checks = json.loads(file.read_text())
        by_id = {}
        for check in checks:
            by_id.setdefault(check["id"], []).append(check)
        good = sum(1 for c in checks if c["status"] == "SUCCESS")
        wrong = []
        if scenario in whole:
            if any(c["status"] in BAD for c in checks):
                skipped += 1
                print(f"  expected  {scenario}")
            else:
                failed += 1
                print(f"  STALE     {scenario}: on the list of expected failures, but passes")
            continue
        for check_id, group in by_id.items():
            entry = f"{scenario}:{check_id}"
            broken = [c for c in group if c["status"] in BAD]
            if broken and entry in single:
                skipped += 1
                print(f"  expected  {entry}")
            elif broken:
                wrong.extend(broken)
            elif entry in single and any(c["status"] == "SUCCESS" for c in group):
                failed += 1
                print(f"  STALE     {entry}: on the list of expected failures, but passes")
        if wrong:
            failed += len(wrong)
            print(f"  FAILED    {scenario}")
            for check in wrong:
                print(f"            {check['id']} {check['name']}: {check.get('errorMessage')}")
        else:
            print(f"  passed    {scenario} ({good} checks)")
        passed += good
    print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
