# SPDX-License-Identifier: BSD-2-Clause
"""The rule by which a kernel panic is tolerated, on console logs."""
from emulation import death

TRACE = """ESCAPEMENT-VM-READY
[   61.502114] BUG: unable to handle page fault for address: ffffffffb1a6c2e8
[   61.502311] Oops: Oops: 0003 [#1] PREEMPT SMP NOPTI
[   61.502460] CPU: 0 UID: 0 PID: 4121 Comm: escapementd Not tainted 6.12.117+deb12-amd64 #1
[   61.502633] RIP: 0010:net_rx_action+0x1a4/0x330
[   61.503105] Call Trace:
[   61.503160]  <IRQ>
%s
[   61.503901]  bpf_prog_load+0x5a3/0xd90
[   61.504120] Kernel panic - not syncing: Fatal exception in interrupt
"""
ELSEWHERE = "[   61.503212]  irq_desc_get_irq_data+0x1d/0x30"
IN_OURS = "[   61.503212]  bpf_prog_6deef7357e7b4530_esc_xdp_in+0x6e1/0x1a58"
IN_TRAMPOLINE = "[   61.503212]  bpf_prog_6deef7357e7b4530+0x6e1/0x1a58"


def test_deaths(tap, _folder):
    """Which kernel panics are tolerated, and which are failures."""
    tap.check(death.is_emulators(TRACE % ELSEWHERE), "panic: one of the kernel alone is tolerated")
    tap.check(not death.is_emulators(TRACE % IN_OURS), "panic: one in a program of ours is not")
    tap.check(not death.is_emulators(TRACE % IN_TRAMPOLINE), "panic: nor in a program without a name")
    tap.check(not death.is_emulators("ESCAPEMENT-VM-READY\n"), "panic: nor an end without a panic")
    lines = death.panic_lines(TRACE % ELSEWHERE)
    tap.check("page fault" in lines[0] and "Kernel panic" in lines[-1],
              "panic: its lines begin with its cause", lines)
