#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Events against their JSON schema: tests/lib/eventschema.py FILE...  Prints what is wrong, a line each; exit 1."""
import json
import os
import sys

import jsonschema

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def validator():
    """For events of this build; one with sanitizers alone has the schema of the other."""
    builds = (os.environ.get("ESCAPEMENT_BUILD", ""), os.path.join(TOP, "build"))
    paths = [os.path.join(build, "escapement-event.schema.json") for build in builds]
    with open(next(filter(os.path.exists, paths), paths[1]), encoding="utf-8") as text:
        schema = json.load(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def errors(lines, check=None, ours=False):
    """What is wrong with lines of JSON, an event each. @ours: but for lines that a full disk cut, and events of a
    release without a schema."""
    check = check or validator()
    found = []
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
        except ValueError as error:
            found += [] if ours else [f"line {number}: {error}"]
            continue
        if ours and "version" not in event:
            continue
        found += [f"line {number}: {'/'.join(map(str, error.path)) or 'event'}: {error.message[:200]}: {line.strip()[:300]}"
                  for error in check.iter_errors(event)]
    return found


def main():
    found = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as text:
            found += [f"{path}: {error}" for error in errors(text)]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
