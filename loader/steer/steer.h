/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steering: which queue pair uses which candidate path, by rules of the operator and by automatic
 * moves; and what came of each.
 */
#ifndef ESC_STEER_STEER_H
#define ESC_STEER_STEER_H

#include <stdint.h>

#include "core/core.h"

/*
 * needs: dataplane, qp, delay, paths. Takes over the rules that are in force when the programs
 * were steering until now (their heartbeat is recent) and the configuration allows it; else there
 * are none. When it is closed, rules stay in force until the heartbeat has been missed for 2 s.
 */
extern const struct capability steer_capability;

enum steer_start { STEER_START_OFF, STEER_START_MANUAL, STEER_START_AUTO };
enum steer_repair { STEER_REPAIR_OFF, STEER_REPAIR_PROVOKE, STEER_REPAIR_REPLAY };
enum steer_overtake { STEER_OVERTAKE_NEVER, STEER_OVERTAKE_ONCE };

/* The section `steer` of the configuration. */
struct steer_keys {
	enum steer_start mode;	      /* of every interface, at the start */
	double capacity_bps;	      /* of a path; 0: the interface's speed */
	uint32_t moves_per_s;	      /* that automatic steering makes at most */
	enum steer_overtake overtake; /* of a queue pair without gaps */
	enum steer_repair repair;     /* after a path died */
};
extern const struct config_section steer_section;
const struct steer_keys *steer_keys(const struct config *config);
/* As in the configuration. */
const char *steer_repair_name(enum steer_repair repair);

#endif
