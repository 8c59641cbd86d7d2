# SPDX-License-Identifier: BSD-2-Clause
"""What can go wrong, by what the caller does about it."""


class VmError(Exception):
    """A sentence for the user; the command fails."""


class Unavailable(VmError):
    """Emulated machines cannot be had here; tests SKIP with this text."""
