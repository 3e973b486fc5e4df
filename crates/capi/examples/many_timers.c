/* The test program of Costello and Varghese (1998, "Performance"): a number of timers set for random times far in the
 * future, and one more, set again and again for a random time farther than all of them. 10,000 times; the same with
 * callouts by function and argument, and by handle. Table I has 1.4 s for each row, on a Sun 4/360.
 *
 *     many_timers [TIMERS …]           0 to 1,000 as in the paper, and 100,000
 *
 * cc many_timers.c $(pkg-config --cflags --libs softtimers)
 */
#include <softtimers.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMES 10000
#define HOUR UINT64_C(3600)

static const struct timeval NEW = {-1, -1};

static void nothing(void *unused) { (void)unused; }

static void refused(const char *what, int error) {
    if (error < 0) {
        fprintf(stderr, "%s: error %d\n", what, -error);
        exit(1);
    }
}

/* Through setitimer(ITIMER_MULTIREAL). */
static double multi_setitimer(unsigned timers) {
    softtimers_itimers *set;
    struct itimerval value = {{0, 0}, {0, 0}}, one = {{0, 0}, NEW};
    refused("softtimers_itimers_new", softtimers_itimers_new(timers + 1, &set));
    for (unsigned i = 0; i < timers; i++) {
        struct itimerval another = {{(long)i, 0}, NEW};
        value.it_value.tv_sec = (time_t)(HOUR + (uint64_t)rand() % HOUR);
        refused("create", softtimers_multi_setitimer(set, &value, &another));
    }
    value.it_value.tv_sec = (time_t)(3 * HOUR);
    refused("create", softtimers_multi_setitimer(set, &value, &one));
    struct timeval handle = one.it_value;
    uint64_t start = softtimers_now();
    for (int i = 0; i < TIMES; i++) {
        value.it_value.tv_sec = (time_t)(3 * HOUR + (uint64_t)rand() % HOUR);
        one.it_value = handle;
        refused("reset", softtimers_multi_setitimer(set, &value, &one));
    }
    double took = (double)(softtimers_now() - start) / 1e6;
    refused("softtimers_itimers_free", softtimers_itimers_free(set));
    return took;
}

/* Through timeout and untimeout, or setcallout and unsetcallout. */
static double callouts(unsigned timers, int by_handle) {
    softtimers_callouts *set;
    char argument[1];
    uint64_t handle;
    refused("softtimers_callouts_new", softtimers_callouts_new(&set));
    for (unsigned i = 0; i < timers; i++) {
        refused("timeout", softtimers_timeout(set, nothing, (void *)(size_t)(i * 64 + 64), HOUR + (uint64_t)rand() % HOUR));
    }
    uint64_t start = softtimers_now();
    for (int i = 0; i < TIMES; i++) {
        uint64_t ticks = 3 * HOUR + (uint64_t)rand() % HOUR;
        if (by_handle) {
            refused("setcallout", softtimers_setcallout(set, nothing, argument, ticks, &handle));
            refused("unsetcallout", softtimers_unsetcallout(set, handle));
        } else {
            refused("timeout", softtimers_timeout(set, nothing, argument, ticks));
            refused("untimeout", softtimers_untimeout(set, nothing, argument));
        }
    }
    double took = (double)(softtimers_now() - start) / 1e6;
    refused("softtimers_callouts_free", softtimers_callouts_free(set));
    return took;
}

int main(int count, char **arguments) {
    static const unsigned usual[] = {0, 200, 400, 600, 800, 1000, 100000};
    int rows = count > 1 ? count - 1 : (int)(sizeof usual / sizeof *usual);
    printf("%10s %16s %16s %16s   ms for %d\n", "timers", "multi_setitimer", "untimeout", "unsetcallout", TIMES);
    for (int row = 0; row < rows; row++) {
        unsigned timers = count > 1 ? (unsigned)strtoul(arguments[row + 1], NULL, 10) : usual[row];
        printf("%10u %16.3f %16.3f %16.3f\n", timers, multi_setitimer(timers), callouts(timers, 0), callouts(timers, 1));
    }
    return 0;
}
