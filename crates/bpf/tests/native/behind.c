/* behind.bpf.h: which round trips are those of a smaller path. */
#include <stdint.h>
#include <stdio.h>

typedef uint64_t u64;
#include "behind.bpf.h"

#define PACKET 1448
/* 10 Mbit/s, in bytes of data a second. */
#define SLOW 1195000

static const struct {
	const char *what;
	u64 share, packets, in, round_trip, shortest;
	int behind;
} CASES[] = {
	{ "10 Mbit/s, 20 ms: 5 ms are four packets", SLOW, 8, 20000, 25500, 20000, 0 },
	{ "the first ten packets, which leave at once", SLOW, 8, 20000, 31500, 20000, 0 },
	{ "half of it, and sixteen wait", SLOW, 8, 20000, 39500, 20000, 1 },
	{ "a queue, and all of it arrives", SLOW, 16, 20000, 60000, 20000, 0 },
	{ "half of it, and no queue: the program sends no more", SLOW, 8, 20000, 20100, 20000, 0 },
	{ "a quarter of the rate: 15 ms are three packets", SLOW / 4, 2, 20000, 35000, 20000, 0 },
	{ "a quarter of the rate: 68 ms are fourteen", SLOW / 4, 2, 20000, 88000, 20000, 1 },
	{ "1 Gbit/s, 1 ms: 2 ms are no more than a train and a host that waits", SLOW * 100, 400, 10000, 3000, 1000, 0 },
	{ "1 Gbit/s, 1 ms: half of it, and 5 ms", SLOW * 100, 400, 10000, 6000, 1000, 1 },
	{ "100 Mbit/s, 100 ms: less than a quarter more", SLOW * 10, 400, 100000, 124000, 100000, 0 },
	{ "100 Mbit/s, 100 ms: a quarter more", SLOW * 10, 400, 100000, 126000, 100000, 1 },
	{ "no measurement", SLOW, 8, 0, 60000, 20000, 0 },
	{ "a shortest round trip of later", SLOW, 8, 20000, 20000, 20100, 0 },
};

int main(void)
{
	int wrong = 0;

	for (unsigned int number = 0; number < sizeof CASES / sizeof *CASES; number++) {
		struct arrivals seen = { CASES[number].packets, CASES[number].in, CASES[number].round_trip,
					 CASES[number].shortest, PACKET };

		if (are_behind(&seen, CASES[number].share) != CASES[number].behind) {
			printf("%s\n", CASES[number].what);
			wrong = 1;
		}
	}
	return wrong;
}
