/* SPDX-License-Identifier: BSD-2-Clause */
/* What lost NIC pairs are due to, as one host sees them. Pure. */
#ifndef ESC_MESH_FAULT_H
#define ESC_MESH_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleet/fleet.h"
#include "mesh.h"

#define FAULT_NICS_MAX 256
#define FAULTS_MAX 32
#define FAULT_NOT_EXPLAINED (-1)

enum fault_direction { FAULT_BOTH, FAULT_RECEIVE, FAULT_TRANSMIT };

struct fault_nic {
	unsigned int host; /* 0: this one; the others in any order */
	unsigned int plane, rail;
	const char *rack; /* NULL: no label */
	/* By its host, recently: it receives; its requests are replied to. */
	bool reported, receives, sends;
	/* Results. */
	enum { FAULT_NIC_UNKNOWN, FAULT_NIC_WELL, FAULT_NIC_BAD } state;
	enum fault_direction direction;
	int fault; /* index into the faults */
};

/* A NIC pair that was received once. */
struct fault_edge {
	unsigned int own, peer; /* NICs */
	bool in, out;		/* it is received, and it receives us; out: with `in` alone */
	/*
	 * With both: some probes of the two are lost. The peer does not reply to ours, and reports
	 * that it receives us; its own do not arrive, its replies do, and it reports lost paths.
	 */
	bool unreplied, one_sided;
	bool heard_by_others; /* by most that replied to a query */
	int fault;	      /* result */
};

/* From the largest to the smallest. RAIL: all NICs of a rail; PATHS: of a plane, between racks. */
enum fault_class {
	FAULT_PLANE,
	FAULT_RAIL,
	FAULT_TOR,
	FAULT_HOST,
	FAULT_NIC,
	FAULT_PATHS,
	FAULT_PAIR,
	FAULT_CLASSES
};

struct fault {
	enum fault_class class;
	unsigned int nic;		/* one of its NICs, or our end of its first pair */
	unsigned int other;		/* PATHS, PAIR: the other end */
	enum fault_direction direction; /* NIC: of what it does not do; PATHS, PAIR: as we see it */
	unsigned int nics, pairs;	/* that it explains */
};

struct fault_view {
	struct fault_nic nics[FAULT_NICS_MAX];
	unsigned int nic_count;
	struct fault_edge edges[MESH_PEERS_MAX];
	size_t edge_count;
	bool partial;			 /* pairs lose a part: hosts with bad NICs report that */
	struct fault faults[FAULTS_MAX]; /* results */
	unsigned int fault_count;
	bool lost_paths[MESH_PLANES]; /* by pairs that are not one-sided */
};
/* Fills in the results of @view. */
void faults_find(struct fault_view *view);

/* What a host reports of one of its NICs, in esc_probe_view.nic_report; 0: nothing. */
struct fault_report {
	enum fleet_plane plane;
	unsigned int rail; /* fleet_mesh.rails */
	bool receives, sends;
};
/* Of NIC @number of @view, one of ours. False: it has no edge. */
bool fault_report_nic(const struct fault_view *view, unsigned int number, struct fault_report *out);
uint8_t fault_report_make(const struct fault_report *report);
/*
 * In place of a NIC: the daemon has ended as asked, and may restart. Older releases take it for no
 * report.
 */
#define FAULT_REPORT_RESTARTS 0x1u
/* In its turn: pairs between racks are lost on that plane. Older releases take it for no report. */
#define FAULT_REPORT_PATHS 0x2u /* and the plane */
/* The same: most pairs of that NIC lose a part of their probes. */
#define FAULT_REPORT_LOSSY 0x40u /* and the plane */
#define FAULT_REPORT_LOSSY_RAIL_SHIFT 1
/* False: it is of no NIC. */
bool fault_report_read(uint8_t byte, struct fault_report *out);

#endif
