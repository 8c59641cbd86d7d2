# SPDX-License-Identifier: BSD-2-Clause
"""Exact counts on real traffic: every transport, both IP versions, with and without loss."""
from emulation import channel, perftest

from . import bench, cleanup

VERSIONS = {"v4": 4, "v6": 6}
RC_BYTES, RC_MESSAGES = 65536, 48 if bench.FULL else 24
UD_BYTES, UD_MESSAGES = 1024, 1024 if bench.FULL else 512
QPS = 4
PMTU = 1024  # of an interface with an MTU of 1500
RC = ("-s", str(RC_BYTES), "-n", str(RC_MESSAGES))
# label: tool, arguments, message bytes, messages per QP, sender
TRAFFIC = {
    "RC send": ("ib_send_bw", RC, RC_BYTES, RC_MESSAGES, bench.CLIENT),
    "RC write": ("ib_write_bw", RC, RC_BYTES, RC_MESSAGES, bench.CLIENT),
    "RC read": ("ib_read_bw", RC, RC_BYTES, RC_MESSAGES, bench.SERVER),
    "UC write": ("ib_write_bw", ("-c", "UC") + RC, RC_BYTES, RC_MESSAGES, bench.CLIENT),
    # A receive buffer for each message: UD has no other flow control.
    "UD send": ("ib_send_bw", ("-c", "UD", "-s", str(UD_BYTES), "-n", str(UD_MESSAGES),
                               "-r", str(UD_MESSAGES)), UD_BYTES, UD_MESSAGES, bench.CLIENT),
}
# kind, where packets are lost, percent: data and then NAKs; acknowledgements and then timeouts, duplicates
LOSSES = (("RC write", bench.CLIENT, 0.3), ("RC send", bench.CLIENT, 0.3),
          ("RC write", bench.SERVER, 10))
SHORT_TIMEOUT = ("-u", "17")  # 0.54 s until a lost last packet is retransmitted


def drive(folder, kind, gid, more=()):
    """One perftest run under observation; `more` arguments overrule the usual ones."""
    tool, extra, *_ = TRAFFIC[kind]
    with bench.observing(folder, f"{kind}-{gid}".replace(" ", "-")) as seen:
        seen.result = perftest.run(bench.CLIENT, bench.SERVER, tool, qps=QPS, gid=gid,
                                   extra=extra + more)
    return seen


def check_messages(tap, label, kind, seen):
    """Messages and their sizes against what perftest reports, and against the capture."""
    _, _, size, count, sender = TRAFFIC[kind]
    reported = seen.result["summary"].get("messages")
    wanted = {"queue pairs": QPS, "messages": count * QPS, "sizes": {(size, size, size)},
              "each": {count}}
    tap.equal(reported, count * QPS, f"{label}: perftest reports {count * QPS} messages")
    for place, entries in (("tc egress", seen.tx[sender]), ("XDP", seen.rx[bench.other(sender)])):
        whole = [entry for entry in entries.values() if entry.get("messages")]
        got = {"queue pairs": len(whole), "messages": bench.total(entries, "messages"),
               "sizes": {tuple(entry["sizes"].get(k) for k in ("min", "p50", "max"))
                         for entry in whole},
               "each": {entry["messages"] for entry in whole}}
        tap.equal(got, wanted, f"{label}: messages and sizes at {place} = perftest's")
    flows = [flow for flow in seen.wire.values() if flow.messages]
    tap.equal((sum(flow.messages for flow in flows), {s for flow in flows for s in flow.sizes}),
              (count * QPS, {size}), f"{label}: messages and sizes in the capture = perftest's")


def check_clean(tap, label, seen):
    """Without loss nothing counts one."""
    faults = {f"{name} {field}": bench.total(side[name], field)
              for name in bench.GUESTS for side in (seen.tx, seen.rx)
              for field in ("duplicates", "retransmits", "psn_gaps", "naks", "rnr_naks")}
    faults.update({f"{name} rxe {counter}": seen.rxe[name][counter] for name in bench.GUESTS
                   for counter in bench.REPAIRS})
    tap.check(not any(faults.values()), f"{label}: no loss, no repair, none counted",
              {key: value for key, value in faults.items() if value})


def test_exact_counts(tap, folder):
    """RC send, write, read; UC write; UD send; over IPv4 and IPv6."""
    cleanup.make_ready()
    for gid, version in VERSIONS.items():
        for kind in TRAFFIC:
            label = f"{kind} over IP{gid}"
            seen = drive(folder, kind, gid)
            if tap.check(seen.result["good"], f"{label}: perftest ran to its end",
                         seen.result["client_output"] + seen.result["server_output"]):
                bench.check_exact(tap, label, seen, version)
                check_messages(tap, label, kind, seen)
                check_clean(tap, label, seen)


def set_loss(name, percent):
    """Loss behind a guest's tc egress: netem drops what rxe and escapement counted as sent."""
    verb = ["add", "dev", "eth0", "root", "netem", "limit", "20000", "loss", f"{percent}%"] \
        if percent else ["del", "dev", "eth0", "root"]
    channel.read(name, ["tc", "qdisc", *verb])


def test_loss(tap, folder):
    """Real go-back-N: NAKs, duplicates and retransmissions as rxe itself counts them."""
    cleanup.make_ready()
    for kind, lossy, percent in LOSSES:
        set_loss(lossy, percent)
        try:
            seen = drive(folder, kind, "v4", SHORT_TIMEOUT)
        finally:
            set_loss(lossy, None)
        label = f"{kind}, {percent}% lost by {lossy}"
        tap.check(seen.result["good"], f"{label}: perftest ran to its end",
                  seen.result["client_output"] + seen.result["server_output"])
        check_loss(tap, label, seen, lossy)
        check_repairs(tap, label, seen)


def check_loss(tap, label, seen, lossy):
    """Each point counts the packets that pass it: the loss is between tc egress and the capture."""
    lost = bench.total(seen.tx[lossy], "packets") - \
        bench.total(seen.rx[bench.other(lossy)], "packets")
    tap.note(f"{label}: {lost} of {bench.total(seen.tx[lossy], 'packets')} packets")
    tap.check(lost > 0, f"{label}: packets were lost", f"{lost}")
    for source in bench.GUESTS:
        wire = bench.wire_counts(seen, source, 4)
        target = bench.other(source)
        tap.equal(bench.our_counts(seen.rx[target]), wire,
                  f"{label}: XDP of {target} = the capture")
        if source != lossy:
            tap.equal(bench.our_counts(seen.tx[source]), wire,
                      f"{label}: tc egress of {source} = the capture")
        bench.check_sums(tap, label, seen, source)


def check_repairs(tap, label, seen):
    """The loss as each counts it: rxe, the capture's sequences, escapement."""
    client, server = bench.CLIENT, bench.SERVER
    sent, got = seen.tx[client], seen.rx[server]
    data = [flow for key, flow in seen.wire.items() if key in got]
    replies = [flow for key, flow in seen.wire.items() if key not in got]
    duplicates = bench.total(got, "duplicates")
    tap.equal((duplicates, duplicates), (seen.rxe[server]["duplicate_request"],
                                         sum(flow.duplicates for flow in data)),
              f"{label}: duplicates at {server} = rxe's duplicate_request = the capture's")
    tap.equal((bench.total(seen.tx[server], "naks"), bench.total(got, "psn_gaps")),
              (seen.rxe[server]["out_of_seq_request"], sum(flow.gaps for flow in data)),
              f"{label}: NAKs sent = rxe's out_of_seq_request, gaps = the capture's")
    tap.equal(bench.total(seen.rx[client], "naks"), sum(flow.naks for flow in replies),
              f"{label}: NAKs received = the capture's")
    tap.equal(bench.total(sent, "packets") - bench.total(sent, "retransmits"),
              QPS * RC_MESSAGES * RC_BYTES // PMTU,
              f"{label}: packets sent - retransmits = packets of the messages")
    tap.equal(bench.total(got, "messages"), QPS * RC_MESSAGES,
              f"{label}: every message ended in order at {server}, once")
