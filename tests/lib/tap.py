# SPDX-License-Identifier: BSD-2-Clause
"""TAP for the test programs written in Python.

    tap = Tap(1)
    tap.check(a == b, "they agree", f"{a} and {b}")
    sys.exit(tap.done())
"""
import sys
import traceback


class Skip(Exception):
    """Raised by a test that cannot run here; its text is the reason."""


class Tap:
    """@plan: the number of test points without arguments, printed first; None, or with arguments: printed at
    the end."""

    def __init__(self, plan=None):
        self.plan = None if sys.argv[1:] else plan
        self.number = 0
        self.failed = 0
        print("TAP version 13" + (f"\n1..{self.plan}" if self.plan else ""), flush=True)

    def note(self, text):
        for line in str(text).splitlines():
            print(f"# {line}", flush=True)

    def check(self, good, name, diagnosis=""):
        """One test point. `diagnosis` is printed only when it failed."""
        self.number += 1
        if not good:
            self.failed += 1
            self.note(diagnosis)
        print(f"{'ok' if good else 'not ok'} {self.number} - {name}", flush=True)
        return bool(good)

    def equal(self, got, wanted, name):
        return self.check(got == wanted, name, f"got    {got!r}\nwanted {wanted!r}")

    def skip(self, name, reason):
        self.number += 1
        print(f"ok {self.number} - {name} # SKIP {reason}", flush=True)

    def run(self, function, *arguments):
        """Runs one test function; an exception in it is a failed test, not the end of the run."""
        try:
            function(self, *arguments)
        except Skip as reason:
            self.skip(function.__name__, reason)
        except Exception:  # noqa: every exception in a test is a failure of that test
            self.check(False, function.__name__, traceback.format_exc())

    def done(self):
        """Prints the plan, unless it was given. Returns the exit code."""
        if not self.plan:
            print(f"1..{self.number}", flush=True)
        elif self.number != self.plan:
            self.note(f"{self.number} test points, {self.plan} in the plan")
        return 1 if self.failed or not self.number or self.number != (self.plan or self.number) else 0


def skip_all(reason):
    print(f"TAP version 13\n1..0 # SKIP {reason}", flush=True)
    sys.exit(0)
