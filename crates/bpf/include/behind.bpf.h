/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Whether a path carries clearly less than a connection sends: less arrives, while a queue fills. No map and no helper, so it
 * also runs as an ordinary program (tests/native/behind.c).
 */
#ifndef SOFTTIMERS_BEHIND_BPF_H
#define SOFTTIMERS_BEHIND_BPF_H

/* What the kernel has measured of a connection's last round trip. */
struct arrivals {
	u64 packets; /* that arrived */
	u64 in;	     /* us that they took to; 0: not known */
	u64 round_trip, shortest; /* us */
	u64 packet;		  /* bytes of data */
};

/* Packets that wait in a queue without a smaller path: a connection's first ten leave unpaced, at once. */
#define OWN_QUEUE 10
/* The least time, us, that a round trip may vary by: trains of the kernel are up to 1 ms long, and hosts wait for a CPU. It is that
 * of CUBIC's own judgement of delay (HyStart). */
#define LEAST_VARIATION 4000

/* Whether less than 3/4 of the share, bytes a second, arrived, and what waits in queues is a quarter of the shortest round trip, and
 * more than what waits anyway. */
static inline __attribute__((always_inline)) int are_behind(const struct arrivals *seen, u64 share)
{
	u64 waits = seen->round_trip > seen->shortest ? seen->round_trip - seen->shortest : 0;

	if (!seen->in || !share)
		return 0;
	return seen->packets * seen->packet * 1000000 / seen->in < share * 3 / 4 && waits > seen->shortest / 4 &&
	       waits > LEAST_VARIATION && waits * share > OWN_QUEUE * seen->packet * 1000000;
}

#endif
