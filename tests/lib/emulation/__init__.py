# SPDX-License-Identifier: BSD-2-Clause
"""Emulated machines with soft-RoCE, plugged into the lab's leaves."""
