# SPDX-License-Identifier: BSD-2-Clause
"""Trees of files of a host, from tests/fixtures/audit, as tests/lib/tree.h makes them."""
import os

import labtest

FIXTURES = os.path.join(labtest.TOP, "tests", "fixtures", "audit")


def lines(flavor):
    """[(path, content)] as the fixture has them."""
    with open(os.path.join(FIXTURES, flavor + ".tree"), encoding="utf-8") as file:
        return [tuple(line.rstrip("\n").split("\t", 1)) for line in file if not line.startswith("#")]


def put(root, name, content):
    """@content as in a fixture, or bytes."""
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if isinstance(content, str) and content.startswith("->"):
        os.symlink(content[2:], path)
        return
    if isinstance(content, str):
        content = bytes.fromhex(content[2:]) if content.startswith("x:") else \
            content.replace("\\n", "\n").replace("\\t", "\t").encode() + b"\n"
    with open(path, "wb") as file:
        file.write(content)


def unpack(root, flavor):
    for name, content in lines(flavor):
        put(root, name, content)
    return root
