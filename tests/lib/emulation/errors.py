# SPDX-License-Identifier: BSD-2-Clause
"""Errors, by what the caller does about them."""


class VmError(Exception):
    """An error message for the user; the command fails."""


class Unavailable(VmError):
    """Emulated machines cannot be had here; tests skip with this text."""
