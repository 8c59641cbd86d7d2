# SPDX-License-Identifier: BSD-2-Clause
"""The parts of tests/lab/lab, one subject a file."""
