#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Fabric time as an application reads it, by libescapement: a line for each reading, until it is ended.

readings.py LIBRARY     CLOCK_MONOTONIC in ns, earliest and latest in ns, status
"""
import ctypes
import sys
import time

STEP_S = 0.02


class Time(ctypes.Structure):
    _fields_ = [("earliest_ns", ctypes.c_int64), ("latest_ns", ctypes.c_int64), ("status", ctypes.c_int)]


library, clock, now = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), Time()
if library.escapement_clock_open(ctypes.byref(clock), None):
    sys.exit("no clock")
while True:
    library.escapement_now(clock, ctypes.byref(now))
    print(time.monotonic_ns(), now.earliest_ns, now.latest_ns, now.status, flush=True)
    time.sleep(STEP_S)
