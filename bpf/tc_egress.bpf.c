// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Everything that leaves through the interface, before its qdisc. */
#include "probe/path_send.bpf.h"
#include "pace/departure.bpf.h"
#include "receipt/send.bpf.h"
#include "receipt/tx_record.bpf.h"
#include "steer/steer.bpf.h"

static __always_inline void egress_count(struct __sk_buff *skb, const struct esc_control *word)
{
	struct pause_mark mark = {};
	struct esc_packet packet;
	struct qp_found found;
	int result = tc_read(skb, &packet), reason;

	/* When the qdisc is to let it go: what pacing holds back is no delay. */
	packet.departure_ns = skb->tstamp;
	hook_count(result, &packet, word, ESC_HOOK_TC_EGRESS, &found);
	if (unlikely(word->flags & ESC_CONTROL_PACE) && result == ESC_PARSE_ROCE && found.qp)
		pace_packet(skb, word, &packet, &found, &mark);
	if (unlikely(word->flags & ESC_CONTROL_STEER) && result == ESC_PARSE_ROCE && found.qp)
		steer_packet(skb, word, &packet, found.qp);
	if (likely(result != ESC_PARSE_ROCE || !found.what))
		return;
	reason = sent_look(&packet, word, &found, &mark);
	if (reason)
		reason_count(reason, ESC_HOOK_TC_EGRESS);
}

SEC("tc")
int esc_tc_out(struct __sk_buff *skb)
{
	const struct esc_control *word = control_get();
	__u32 mark = skb->mark;
	bool ours;
	int verdict;

	barrier_var(mark);
	/* Before the kill switch, which may fall between a clone and here. */
	if (unlikely((mark & ~1u) == ESC_RECEIPT_MARK)) {
		verdict = receipt_send(skb, &ours);
		if (ours)
			return verdict;
	}
	if (!word)
		return ESC_TC_NEXT;
	if (unlikely(mark == ESC_PROBE_MARK) && probe_send(skb))
		return ESC_TC_NEXT;
	egress_count(skb, word);
	return ESC_TC_NEXT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
