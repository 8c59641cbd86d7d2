# SPDX-License-Identifier: BSD-2-Clause
"""The daemon ends and starts again under load, without effect on packets."""
import threading
import time

from emulation import channel, daemon, perftest

from . import bench, cleanup

RESTARTS, KILLS = (20, 5) if bench.FULL else (2, 2)
# At full speed an emulated CPU has little left for a daemon that starts, and 25 starts take
# minutes. perftest polls besides: it yields to others.
# A number of messages, some 15 s: with -D one client in 34 crashed, for a reason not found.
LOAD = ("-s", "16384", "-n", "448", "--rate_limit", "1", "--rate_units", "M",
        "--rate_limit_type", "SW")
STEP_SECONDS = 9  # half of a run with its start
NICE = 19
FLOWING_SECONDS = 30
FLOWS_ON_SECONDS = 5


class Load:
    """Two ib_write_bw again and again, out of step so that one always flows, until `over` is set."""

    def __init__(self):
        self.over = threading.Event()
        self.results = []
        self.fault = None
        self.threads = [threading.Thread(target=self.run, args=(number * STEP_SECONDS,))
                        for number in range(2)]

    def run(self, delay):
        try:
            self.over.wait(delay)
            while not self.over.is_set():
                self.results.append(perftest.run(bench.CLIENT, bench.SERVER, "ib_write_bw", qps=2,
                                                 gid="v4", extra=LOAD, nice=NICE))
        except Exception as error:  # noqa: reported by the test, not by the thread
            self.fault = error

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()


def sent_packets():
    return bench.rxe_counters(bench.CLIENT)["sent_pkts"]


def wait_flowing():
    """Waits until RoCEv2 flows."""
    deadline, before = time.monotonic() + FLOWING_SECONDS, sent_packets()
    while time.monotonic() < deadline:
        now = sent_packets()
        if now > before:
            return
        before = now
    raise TimeoutError(f"no RoCEv2 for {FLOWING_SECONDS} s")


def flows_on(before):
    """More packets than @before were sent, within a while."""
    deadline = time.monotonic() + FLOWS_ON_SECONDS
    while sent_packets() <= before and time.monotonic() < deadline:
        pass
    return sent_packets() > before


def under_load(verb, times):
    """Does it to the sender's and the receiver's daemon at once, until `times` of them had
    packets flowing before, in and after it. Returns how many had."""
    done = tried = 0
    while done < times and tried < 4 * times:
        wait_flowing()
        before = sent_packets()
        bench.each(lambda name: daemon.control(name, verb))
        during = sent_packets()
        if before < during and flows_on(during):
            done += len(bench.GUESTS)
        tried += len(bench.GUESTS)
    return done


def test_restart_under_load(tap, folder):
    """Restarts and kill -9 of the daemon during ib_write_bw."""
    cleanup.make_ready()
    started = time.monotonic()
    load = Load()
    try:
        with bench.nice_counts(), bench.observing(folder, "restart") as seen, load:
            restarts = under_load("restart", RESTARTS)
            kills = under_load("kill", KILLS)
    finally:
        if load.fault:
            tap.note(f"the load ended: {load.fault}")
    tap.note(f"{seen.capture['packets']} packets in {time.monotonic() - started:.0f} s")
    tap.check(restarts >= RESTARTS and kills >= KILLS,
              f"restart: {restarts} restarts and {kills} kill -9 while packets flowed",
              f"wanted {RESTARTS} and {KILLS}")
    tap.check(load.results and all(result["good"] for result in load.results),
              "restart: ib_write_bw ran to its end each time",
              [result["summary"] for result in load.results])
    bench.check_exact(tap, "restart", seen, 4)
    repairs = {f"{name} {counter}": seen.rxe[name][counter]
               for name in bench.GUESTS for counter in bench.REPAIRS}
    tap.check(not any(repairs.values()), "restart: no packet lost, no retransmission caused",
              f"{ {key: value for key, value in repairs.items() if value} }; dropped by the "
              f"guests' qdiscs since they booted: {bench.qdisc_drops()}")
    moved = {name: seen.rxe[name]["sent_pkts"] - seen.rxe[bench.other(name)]["rcvd_pkts"]
             for name in bench.GUESTS}
    tap.check(not any(moved.values()), "restart: what one rxe sent the other received", moved)
