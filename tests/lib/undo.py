# SPDX-License-Identifier: BSD-2-Clause
"""What outlives the process that made it (a network namespace, a cgroup) is recorded for tests/lib/guard."""
import os
import shlex


def register(*command):
    """@command removes what is made next; it is run at the end of the test, and may fail then."""
    path = os.environ.get("ESCAPEMENT_UNDO")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(shlex.join(command) + "\n")
