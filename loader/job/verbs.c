// SPDX-License-Identifier: BSD-2-Clause
/* The verb job. */
#include "base/verb.h"
#include "internal.h"

/* clang-format off: tables */

static const struct column jobs[] = {
	{"JOB", "job_id", FORMAT_TEXT, COLUMN_LEFT, .help = "the job, as its manager names it"},
	{"KIND", "kind", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`slurm`, `kubernetes`, `docker`, `podman`, `systemd`, or `cgroup`: any other "
		 "cgroup, by its path"},
	{"QPS", "qp_count", FORMAT_COUNT, .help = "queue pairs that are here, one per direction"},
	{"ENDED", "qps_ended", FORMAT_COUNT, .help = "queue pairs that ended; all sums have them"},
	{"PKTS_TX", "tx.packets", FORMAT_COUNT, .help = "packets sent"},
	{"TX", "tx.bytes", FORMAT_BYTES, .help = "bytes sent"},
	{"PKTS_RX", "rx.packets", FORMAT_COUNT, .help = "packets received"},
	{"RX", "rx.bytes", FORMAT_BYTES, .help = "bytes received"},
	{"VERBS_TX", "verbs.tx.bytes", FORMAT_BYTES, COLUMN_OPTIONAL,
	 .help = "bytes that its processes posted, counted with libescapement-verbs"},
	{"VERBS_RX", "verbs.rx.bytes", FORMAT_BYTES, COLUMN_OPTIONAL,
	 .help = "bytes that they received"},
	{"RETX", "tx.retransmits", FORMAT_COUNT, .help = "packets sent again"},
	{"PSN_GAPS", "rx.psn_gaps", FORMAT_COUNT,
	 .help = "how often a packet sequence number was skipped in what was received"},
	{"CE", "rx.ce", FORMAT_COUNT, .help = "packets received with a congestion mark"},
	{"OWD_P50", "owd_ns.p50", FORMAT_TIME, COLUMN_OPTIONAL,
	 .help = "median one-way delay of what it sent, since it began"},
	{"OWD_P99", "owd_ns.p99", FORMAT_TIME, COLUMN_OPTIONAL, .help = "its 99th percentile"},
	{"ERR", "owd_ns.bound", FORMAT_TIME, COLUMN_OPTIONAL,
	 .help = "bound of the error of these delays"},
	{"RANKS", "nccl_ranks", FORMAT_COUNT, COLUMN_OPTIONAL,
	 .help = "its ranks in communicators, recorded with libescapement-nccl"},
	{"LAST", "last_packet_ms", FORMAT_AGE,
	 .help = "how long ago its newest packet, or message, was seen"},
	{},
};

static const struct column processes[] = {
	{"PROCESS", "{comm}<|[{pid}]|>", FORMAT_TEXT, COLUMN_LEFT, .help = "name and number"},
	{"HOST", "host", FORMAT_TEXT, COLUMN_LEFT, .help = "its host"},
	{"QPS", "qp_count", FORMAT_COUNT, .help = "its queue pairs, one per direction"},
	{"TX", "tx.bytes", FORMAT_BYTES, .help = "bytes sent"},
	{"RX", "rx.bytes", FORMAT_BYTES, .help = "bytes received"},
	{},
};

static const struct column interfaces[] = {
	{"NIC", "interface", FORMAT_TEXT, COLUMN_LEFT, .help = "its interface"},
	{"HOST", "host", FORMAT_TEXT, COLUMN_LEFT, .help = "its host"},
	{"QPS", "qp_count", FORMAT_COUNT, .help = "its queue pairs, one per direction"},
	{"TX", "tx.bytes", FORMAT_BYTES, .help = "bytes sent"},
	{"RX", "rx.bytes", FORMAT_BYTES, .help = "bytes received"},
	{"RETX", "tx.retransmits", FORMAT_COUNT, .help = "packets sent again"},
	{"PSN_GAPS", "rx.psn_gaps", FORMAT_COUNT,
	 .help = "how often a packet sequence number was skipped"},
	{},
};

static const struct column peers[] = {
	{"PEER", "peer", FORMAT_TEXT, COLUMN_LEFT, .help = "the host of the other end"},
	{"HOST", "host", FORMAT_TEXT, COLUMN_LEFT, .help = "its host"},
	{"QPS", "qp_count", FORMAT_COUNT, .help = "its queue pairs, one per direction"},
	{"TX", "tx.bytes", FORMAT_BYTES, .help = "bytes sent"},
	{"RX", "rx.bytes", FORMAT_BYTES, .help = "bytes received"},
	{"RETX", "tx.retransmits", FORMAT_COUNT, .help = "packets sent again"},
	{"OWD_P99", "owd_ns.p99", FORMAT_TIME, COLUMN_OPTIONAL,
	 .help = "of its queue pairs now, the largest"},
	{"ERR", "owd_ns.bound", FORMAT_TIME, COLUMN_OPTIONAL,
	 .help = "bound of the error of this delay"},
	{},
};

static const struct column paths[] = {
	{"PATH", "{src}>{dst}", FORMAT_TEXT, COLUMN_LEFT, .help = "addresses of a path"},
	{"SPORT", "sport", FORMAT_TEXT, .help = "its UDP source port"},
	{"STEERED", "steered_sport", FORMAT_TEXT, COLUMN_OPTIONAL,
	 .help = "the source port that steering, or a failover, has put in its place"},
	{"QPS", "qp_count", FORMAT_COUNT, .help = "its queue pairs, one per direction"},
	{"TX", "tx.bytes", FORMAT_BYTES, .help = "bytes sent"},
	{"RX", "rx.bytes", FORMAT_BYTES, .help = "bytes received"},
	{"OWD_P99", "owd_ns.p99", FORMAT_TIME, COLUMN_OPTIONAL,
	 .help = "99th percentile of the delay of its queue pairs now, the largest"},
	{},
};

static const struct column findings[] = {
	{"FINDING", "kind", FORMAT_TEXT, COLUMN_LEFT, .help = "an open finding, see `findings`"},
	{"SEVERITY", "severity", FORMAT_TEXT, COLUMN_LEFT, .help = "its severity"},
	{"ID", "id", FORMAT_TEXT, COLUMN_LEFT, .help = "its id, for `findings ID`"},
	{"SINCE", "age_ns", FORMAT_AGE, .help = "since when"},
	{},
};

static const struct column stopped[] = {
	{"STOPPED", "ago_ms", FORMAT_AGE, .help = "how long ago its last progress was seen"},
	{"BEFORE", "before_fabric_ns", FORMAT_TEXT,
	 .help = "its last new request was sent before this, ns of fabric time; of a queue pair "
		 "that only its process counts, its last post or completion was"},
	{"ERR", "bound_ns", FORMAT_TIME, .help = "bound of the error of that time"},
	{"HOST", "host", FORMAT_TEXT, COLUMN_LEFT, .help = "where it was seen"},
	{"QP", "key", FORMAT_TEXT, COLUMN_LEFT, .help = "the queue pair"},
	{"CAUSE", "cause", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`local`: all was acknowledged, or completed, and this host sent no more; "
		 "`remote`: the peer received all and does not acknowledge; `fabric`: what was "
		 "sent was not received"},
	{"UNACKED", "unacknowledged_packets", FORMAT_COUNT,
	 .help = "packets that are not acknowledged"},
	{"PENDING", "operations", FORMAT_COUNT, COLUMN_OPTIONAL,
	 .help = "operations without a completion, where only the process counts them"},
	{"PROCESS", "<|{comm}|><|[{pid}]|>", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL,
	 .help = "the process that owns it"},
	{},
};

static const struct column ranks[] = {
	{"RANK", "rank", FORMAT_COUNT, .help = "a rank of the communicator"},
	{"HOST", "host", FORMAT_TEXT, COLUMN_LEFT, .help = "its host"},
	{"PROCESS", "{comm}<|[{pid}]|>", FORMAT_TEXT, COLUMN_LEFT, .help = "name and number"},
	{"COLLS", "collectives", FORMAT_COUNT, .help = "collectives that it started"},
	{"P2P", "messages", FORMAT_COUNT, .help = "sends and receives that it started"},
	{"SENT", "network_bytes", FORMAT_BYTES,
	 .help = "bytes that its proxies sent, of what was recorded"},
	{"NEXT", "next", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL,
	 .help = "ranks that its proxies send to, in the newest collective"},
	{"PREVIOUS", "previous", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL,
	 .help = "ranks that they receive from"},
	{},
};

static const struct column operations[] = {
	{"RANK", "rank", FORMAT_COUNT, .help = "a rank of the communicator"},
	{"OPERATION", "{func}<| {algo}|><| {proto}|>", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "function, algorithm and protocol"},
	{"COUNT", "count", FORMAT_COUNT, .help = "how many were recorded"},
	{"MEAN", "duration_ns", FORMAT_TIME,
	 .help = "mean time from its start to the end of its last transfer"},
	{"RATE", "throughput_bps", FORMAT_RATE, COLUMN_OPTIONAL,
	 .help = "bytes of its buffers over that time"},
	{"NETWORK", "network_share", FORMAT_SHARE, COLUMN_OPTIONAL,
	 .help = "part of the time of its sends in which data is in the network"},
	{"PEER", "peer_wait_share", FORMAT_SHARE, COLUMN_OPTIONAL,
	 .help = "part in which there is data and the peer has no room for it"},
	{"GPU", "gpu_wait_share", FORMAT_SHARE, COLUMN_OPTIONAL,
	 .help = "part in which the GPU has not made the data"},
	{"DATA", "data_wait_share", FORMAT_SHARE, COLUMN_OPTIONAL,
	 .help = "part of the time of its receives in which no data has arrived"},
	{},
};

static const struct column nccl_qps[] = {
	{"RANK", "rank", FORMAT_COUNT, .help = "a rank of the communicator"},
	{"PEER", "peer_rank", FORMAT_COUNT, .help = "the rank at the other end"},
	{"QPN", "qpn", FORMAT_TEXT, .help = "number of the queue pair"},
	{"OPS", "operations", FORMAT_COUNT, .help = "its operations"},
	{"MEAN", "mean_ns", FORMAT_TIME, .help = "their mean time from the post to the completion"},
	{"MAX", "slowest_ns", FORMAT_TIME, .help = "the longest"},
	{},
};

static const struct verb_section communicator[] = {
	{.header = "Communicator",
	 .text = "{communicator}<| ({name})|><|, {size} ranks|><|, {nodes} nodes|>; {judged} "
		 "collectives were compared"},
	{.when = "verdict.cause=slow_link",
	 .header = "Slow link",
	 .text = "rank {verdict.rank}<| ({verdict.host})|> to rank {verdict.peer_rank}<| "
		 "({verdict.peer})|>: {verdict.excess_ns:time} more in the network than the "
		 "others' {verdict.others_ns:time}, of {verdict.duration_ns:time}"},
	{.when = "verdict.cause=slow_rank",
	 .header = "Slow rank",
	 .text = "rank {verdict.rank}<| ({verdict.host})|>: it holds the others up by "
		 "{verdict.excess_ns:time}, of {verdict.duration_ns:time}; its network is not "
		 "slow"},
	{.rows = "ranks", .columns = ranks},
	{.rows = "operations", .columns = operations},
	{.rows = "qps", .columns = nccl_qps},
	{},
};

static const struct verb_section output[] = {
	{.when = "none",
	 .rows = "jobs",
	 .columns = jobs,
	 .empty = "No job has queue pairs or communicators here."},
	{.when = "none.tx.packets+none.rx.packets",
	 .text = "Of no job: {none.qp_count} queue pairs, {none.tx.packets:count} packets sent, "
		 "{none.rx.packets:count} received."},
	{.text = "{note}"},
	{.when = "kind", .header = "Job", .text = "{job_id}, {kind}<|, cgroup {cgroup}|>"},
	{.when = "tx",
	 .header = "Sent",
	 .text = "{tx.bytes:bytes} in {tx.packets:count} packets, {tx.messages:count} messages; "
		 "{tx.retransmits} packets again"},
	{.when = "rx",
	 .header = "Received",
	 .text = "{rx.bytes:bytes} in {rx.packets:count} packets, {rx.messages:count} messages; "
		 "{rx.psn_gaps} gaps, {rx.duplicates} packets twice, {rx.ce} CE marks"},
	{.when = "verbs",
	 .header = "By processes",
	 .text = "{verbs.tx.bytes:bytes} in {verbs.tx.messages:count} messages posted, "
		 "{verbs.rx.bytes:bytes} in {verbs.rx.messages:count} received; "
		 "{verbs.errors} errors (libescapement-verbs(7))"},
	{.when = "kind", .header = "Queue pairs", .text = "{qp_count} are here, {qps_ended} ended"},
	{.when = "kind",
	 .header = "Delay",
	 .text = "median {owd_ns.p50:time}, 99th percentile {owd_ns.p99:time}, maximum "
		 "{owd_ns.max:time}, error bound {owd_ns.bound:time}; {owd_ns.samples} samples"},
	{.when = "event_kinds", .header = "Events", .text = "{event_kinds}"},
	{.rows = "processes", .columns = processes},
	{.rows = "interfaces", .columns = interfaces},
	{.rows = "peers", .columns = peers},
	{.rows = "paths", .columns = paths},
	{.rows = "communicators", .sections = communicator},
	{.rows = "findings", .columns = findings},
	{.when = "first",
	 .text = "{first.key} stopped first, at {first.host}, {first.ago_ms:age} ago<|: the cause "
		 "is {first.cause}|>."},
	{.when = "not_ordered",
	 .text = "Not ordered: each of {not_ordered} may have stopped first, within the bounds: "
		 "{not_ordered_with}."},
	{.when = "untimed", .text = "Of {untimed} queue pairs it is not known when they moved."},
	{.when = "moving", .text = "{moving} of {qp_count} still move."},
	{.rows = "stopped", .columns = stopped},
	{},
};

static const struct verb_arg args[] = {
	{"ID", .type = VERB_TEXT, .key = "id",
	 .help = "a job, as `job` lists it; of Slurm also its number"},
	{"VIEW", .type = VERB_CHOICE, .choices = "timeline", .key = "view",
	 .help = "`timeline`: which of its queue pairs stopped first"},
	{"--quiet", "TIME", .type = VERB_DURATION, .key = "quiet_ns", .least = 100000000,
	 .most = 3600000000000,
	 .help = "without progress for this long a queue pair has stopped; default 1s"},
	{"--from", "FILE", .type = VERB_TEXT, .key = "from", .repeated = true, .local = true,
	 .help = "without a daemon, from what `escapement -j job ID` or `-j qp` printed on a host; "
		 "it may be given several times"},
	{},
};

static const struct verb verbs[] = {
	{.name = "job",
	 .reads = true,
	 .summary = "the jobs of this host, what one sent and received, and what stopped first",
	 .args = args,
	 .output = output,
	 .run = job_run_files,
	 .help = "A job is that of a queue pair's process: a Slurm job with all its steps, a "
		 "Kubernetes pod, a container, a systemd unit, or the path of another cgroup. Its "
		 "sums have the queue pairs that ended, since this daemon began. The pods of a job "
		 "have an id each: with --from the queue pairs at the other ends are shown, too. "
		 "`timeline` compares when each queue pair sent its last new request, in fabric "
		 "time; a retransmission is no progress. When the bounds of two overlap it states "
		 "that they are not ordered."},
	{},
};

const struct verb_set job_verbs = {.name = "job", .verbs = verbs};
