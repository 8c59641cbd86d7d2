# SPDX-License-Identifier: BSD-2-Clause
"""`qp_owd` and `qps` of a host as bytes, by maps/owd.h and maps/qp.h: a reader without code of the daemon."""
import collections
import ipaddress
import json
import struct

PINS = "/sys/fs/bpf/escapement"
KEY = struct.Struct("<16s16sIBB2x")
HEAD = struct.Struct("<7Q3qQIIQQB7x")
WINDOW = struct.Struct("<II3q8I4Q")
WINDOWS, BUCKETS, LINEAR_BITS, SUB_BITS = 8, 800, 8, 5
SAMPLE_MASK_AT, SAMPLE_FLAGS_AT, SAMPLE_NO_FEEDBACK = 56, 60, 2  # in struct esc_qp
TX = 0

Key = collections.namedtuple("Key", "src dst dest_qpn direction port")
Window = collections.namedtuple("Window", "number samples min_ns max_ns sum_ns bound_ns over "
                                "crossings ce stack_max_ns queue_max_ns queue_samples messages "
                                "message_bytes message_delay_sum_ns message_delay_max_ns "
                                "message_spread_sum_ns")
Owd = collections.namedtuple("Owd", "sent receipts samples discarded expired first_ktime_ns "
                             "last_ktime_ns last_ns min_ns max_ns feedback_sum_ns last_bound_ns "
                             "last_psn crossings over above windows histogram")
Sampling = collections.namedtuple("Sampling", "mask no_feedback")


def address(raw):
    value = ipaddress.IPv6Address(raw)
    return str(value.ipv4_mapped or value)


def floor_ns(bucket):
    """Smallest delay of a bucket; the first has smaller delays as well."""
    octave, n = bucket >> SUB_BITS, bucket & ((1 << SUB_BITS) - 1)
    if not octave:
        return n << (LINEAR_BITS - SUB_BITS)
    return (n | 1 << SUB_BITS) << (octave - 1 + LINEAR_BITS - SUB_BITS)


def record_index(psn):
    """The index of a PSN's record among the 64 of its queue pair (ESC_TX_RECORD_INDEX)."""
    return (psn ^ psn >> 6 ^ psn >> 12 ^ psn >> 18) & 63


def owd_of(value):
    windows = [Window(*WINDOW.unpack_from(value, HEAD.size + i * WINDOW.size))
               for i in range(WINDOWS)]
    counts = struct.unpack_from(f"<{BUCKETS}I", value, HEAD.size + WINDOWS * WINDOW.size)
    return Owd(*HEAD.unpack_from(value), windows,
               {bucket: count for bucket, count in enumerate(counts) if count})


def quantile_span(owd, share):
    """(from, below) of the bucket of the quantile @share."""
    left = max(1, -int(-share * sum(owd.histogram.values()) // 1))
    for bucket in sorted(owd.histogram):
        left -= owd.histogram[bucket]
        if left <= 0:
            return floor_ns(bucket), floor_ns(bucket + 1)
    return None


def dump(lab, node, name):
    """[(key, value)] as bytes."""
    entries = json.loads(lab.good(node, "bpftool", "-j", "map", "dump", "pinned",
                                  f"{PINS}/{name}"))
    return [tuple(bytes(int(byte, 16) for byte in entry[part]) for part in ("key", "value"))
            for entry in entries]


def keys_of(entries):
    for raw, value in entries:
        source, target, qpn, direction, port = KEY.unpack(raw)
        yield Key(address(source), address(target), qpn, direction, port), value


def owds(lab, node):
    """{Key: Owd}"""
    return {key: owd_of(value) for key, value in keys_of(dump(lab, node, "qp_owd"))}


def sampling(lab, node):
    """{Key: Sampling} of all queue pairs."""
    return {key: Sampling(*struct.unpack_from("<I", value, SAMPLE_MASK_AT),
                          bool(value[SAMPLE_FLAGS_AT] & SAMPLE_NO_FEEDBACK))
            for key, value in keys_of(dump(lab, node, "qps"))}
