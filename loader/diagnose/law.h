/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thresholds of the diagnoses. No public standard gives any for one-way delay; cases in print are
 * 94 against 4 us and 250 against 10 us, and a slow path is commonly taken as three times its usual
 * delay and 20 us more. A poll is a quarter of a second. Where a delay is compared, both clock
 * bounds are added to the margin first.
 */
#ifndef ESC_DIAGNOSE_LAW_H
#define ESC_DIAGNOSE_LAW_H

#define LAW_SAMPLES_MIN 5 /* of a queue pair's recent delays, to be judged */

/* Slow: the median against the queue pair's own floor. */
#define LAW_FLOOR_NS 30000000000ull	  /* the floor is the least of so long */
#define LAW_FLOOR_KEEP_NS 600000000000ull /* and stays while slow, at most so long */
#define LAW_SLOW_FACTOR 3
#define LAW_SLOW_MARGIN_NS 20000

/* Outlier: against the siblings' median. */
#define LAW_OUTLIER_FACTOR 1.6
#define LAW_OUTLIER_MADS 5
#define LAW_OUTLIER_MARGIN_NS 10000
#define LAW_OUTLIER_USUAL 1.7 /* times its own best median, or ... */
#define LAW_OUTLIER_FLOOR 1.5 /* ... so many floors above its floor */
#define LAW_OUTLIER_FEW 2     /* with no more siblings than this ... */
#define LAW_OUTLIER_FEW_FACTOR 3
#define LAW_OUTLIER_LONER_FACTOR 2.2
#define LAW_OUTLIER_LONERS 3 /* to different destinations: more than this, or they are no measure  \
			      */
#define LAW_OUTLIER_SPREADS 1.5	  /* times what the furthest of the others is from their median */
#define LAW_OUTLIER_GAP 1.4	  /* the least bad of those named against the worst of the others */
#define LAW_OUTLIER_CLEAN 3	  /* spreads of the others, between them and the named */
#define LAW_OUTLIER_SURE_NS 50000 /* less above the others than this takes longer to be sure of */
#define LAW_OUTLIER_MINORITY 4	  /* one in so many may be named, and always one */

/* In-band against out-of-band. */
#define LAW_INBAND_FACTOR 5
#define LAW_INBAND_MARGIN_NS 50000
#define LAW_MESH_SAMPLES_MIN 10
#define LAW_OWN_LOAD 1.15 /* more than the load that was carried well: it may be its own queue */

/* Stalled. */
#define LAW_STALL_NS 500000000ull	 /* with a retransmission since */
#define LAW_STALL_QUIET_NS 1500000000ull /* on unacknowledged packets alone */
#define LAW_STALL_NEVER_NS 1000000000ull /* nothing ever came back */
#define LAW_WINDOW_PSNS 0x10000		 /* more unacknowledged: these are not one connection */

/* Loss, marks, hosts. */
#define LAW_HISTORY 8 /* polls that losses are summed over */
#define LAW_LOSS_POLLS 2
#define LAW_LOSS_MIN 3
#define LAW_CE_RATIO 0.01
#define LAW_RNR_MIN 3
#define LAW_STACK_NS 1000000
#define LAW_QUEUE_SHARE 0.5
#define LAW_IMBALANCE_GAP 2
#define LAW_ALL_SLOW 0.75 /* of a destination's queue pairs */

/* The list of diagnoses. */
#define LAW_BOOK_MAX 512	     /* active or remembered */
#define LAW_BURST 10		     /* events of a kind at once ... */
#define LAW_REFILL_NS 2000000000ull  /* ... and one more each */
#define LAW_CHANGE_NS 10000000000ull /* between two changes of one diagnosis */
#define LAW_MORE_NS 10000000000ull   /* between two sums of what was left out */
#define LAW_REMEMBER_NS 300000000000ull
#define LAW_HOLD_DOUBLINGS 5 /* one that comes and goes is cleared 2^n times as late */

#endif
