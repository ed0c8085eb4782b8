/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The payload of a test packet: docs/wire-format.md.
 */
#ifndef XDP_TEST_H
#define XDP_TEST_H

#include "run.h"
#include "splitmix.h"
#include "udp.h"

/* Reasons beside those of the parser and the filter. */
enum {
	/* `drop`: of no stream. */
	UNNAMED_FLOW_PACKETS = 15,
	FOREIGN_NOT_STAMPED = 16,
	FOREIGN_OTHER_RUN,
	FOREIGN_WRONG_ADDRESS,
	FOREIGN_WRONG_PORT,
	FOREIGN_FRAGMENT,
	BEYOND_WINDOW,
	FLOW_MOVED,
	UNTRACKED_FLOW_PACKETS,
	SENDER_RESTARTS,
	LATENCY_NOT_MEASURABLE,
	FLOW_CONTENDED,
	/* What `drop` does not believe. Where two sources count up and down, only their sum says something. */
	IMPLAUSIBLE_SEQUENCE,
	UNCONFIRMED_GAP,
	GAP_AFTER_FIRST,
	CONTESTED_GAP,
	/* From the MAC address that the test sends from. */
	FOREIGN_LOOPED,
};

enum { STAMP = 16, UDP_HEADER = 8 };

#endif
