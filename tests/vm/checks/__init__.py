# SPDX-License-Identifier: BSD-2-Clause
"""The tests that run on the emulated machines; one subject a file, each with test_* functions."""
