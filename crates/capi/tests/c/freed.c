/* A function that is due frees the object whose loop calls it. The loop ends, and touches neither the object nor what
 * stands in its place by then. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <setjmp.h>

#include "check.h"

static softtimers_timers *timers;
static softtimers_callouts *callouts;
static int called;
static jmp_buf away;

static void count(void *argument) {
    (void)argument;
    called++;
}

static void free_timers(void *argument) {
    count(argument);
    CHECK(softtimers_timers_free(timers) == 0);
}

static void free_callouts(void *argument) {
    count(argument);
    CHECK(softtimers_callouts_free(callouts) == 0);
}

static softtimers_call call_of(softtimers_function function) {
    softtimers_call call;
    call.function = function;
    call.argument = NULL;
    return call;
}

static softtimers_timers *set_of(softtimers_function first) {
    softtimers_timers *set;
    CHECK(softtimers_timers_new(NULL, &set) == 0);
    CHECK(softtimers_timers_schedule(set, 0, 1000, 0, call_of(first), NULL) == 0);
    CHECK(softtimers_timers_schedule(set, 0, 2000, 0, call_of(count), NULL) == 0);
    CHECK(softtimers_timers_schedule(set, 0, 9000000, 0, call_of(count), NULL) == 0);
    return set;
}

static void by_a_timer(void) {
    uint64_t life;
    called = 0;
    timers = set_of(free_timers);
    life = softtimers_life(timers);
    CHECK(life != 0 && softtimers_lives(timers, life) == 1 && softtimers_lives(timers, life + 1) == 0);
    CHECK(softtimers_timers_run(timers, SOFTTIMERS_IDLE, 5000) == 1 && called == 1);
    CHECK(softtimers_lives(timers, life) == 0 && softtimers_lives(NULL, life) == 0);
}

/* Frees, and has so many others freed that another set stands in the same place, with something due. */
static softtimers_timers *successor;

static void replace_timers(void *argument) {
    softtimers_histogram *others[1100];
    int index;
    free_timers(argument);
    for (index = 0; index < 1100; index++) {
        CHECK(softtimers_histogram_new(&others[index]) == 0);
    }
    for (index = 0; index < 1100; index++) {
        CHECK(softtimers_histogram_free(others[index]) == 0);
    }
    for (index = 0; index < 4000; index++) {
        successor = set_of(count);
        if (successor == timers) {
            /* Mid-turn, as the one before was. */
            CHECK(softtimers_timers_trigger(successor, SOFTTIMERS_IDLE, 5000) == 1);
            return;
        }
        CHECK(softtimers_timers_free(successor) == 0);
    }
    CHECK(!"the place is used again");
}

static void by_a_timer_whose_place_is_taken(void) {
    called = 0;
    timers = set_of(replace_timers);
    CHECK(softtimers_timers_run(timers, SOFTTIMERS_IDLE, 5000) == 1 && called == 1);
    CHECK(softtimers_timers_len(successor) == 3 && softtimers_timers_free(successor) == 0);
}

/* A loop within the loop frees what both go over. */
static void run_again(void *argument) {
    count(argument);
    CHECK(softtimers_timers_schedule(timers, 5000, 0, 0, call_of(free_timers), NULL) == 0);
    CHECK(softtimers_timers_run(timers, SOFTTIMERS_IDLE, 6000) == 2);
}

static void by_a_loop_within(void) {
    called = 0;
    timers = set_of(run_again);
    CHECK(softtimers_timers_run(timers, SOFTTIMERS_IDLE, 5000) == 1 && called == 3);
}

static void leap(void *argument) {
    count(argument);
    longjmp(away, 1);
}

/* Nothing waits for a loop that was left. */
static void after_a_leap(void) {
    called = 0;
    timers = set_of(leap);
    if (setjmp(away) == 0) {
        (void)softtimers_timers_run(timers, SOFTTIMERS_IDLE, 5000);
        CHECK(!"it is left");
    }
    CHECK(called == 1 && softtimers_timers_run(timers, SOFTTIMERS_IDLE, 6000) == 1 && called == 2);
    CHECK(softtimers_timers_free(timers) == 0);
}

static void by_a_callout(int whole) {
    called = 0;
    CHECK(softtimers_callouts_new(&callouts) == 0);
    CHECK(softtimers_timeout(callouts, free_callouts, NULL, 1) == 0 && softtimers_timeout(callouts, count, NULL, 1) == 0);
    if (whole) {
        CHECK(softtimers_hardclock(callouts) == 0);
    } else {
        CHECK(softtimers_tick(callouts) == 1 && softtimers_softclock(callouts) == 1);
    }
    CHECK(called == 1);
}

static void *use(void *object) {
    CHECK(softtimers_adopt(object) == 0);
    CHECK(softtimers_timers_run(object, SOFTTIMERS_IDLE, 5000) == 2);
    return NULL;
}

/* From here to another thread and back. */
static void handed_over(void) {
    pthread_t thread;
    called = 0;
    timers = set_of(count);
    CHECK(pthread_create(&thread, NULL, use, timers) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(called == 2 && softtimers_adopt(timers) == 0 && softtimers_timers_len(timers) == 1);
    CHECK(softtimers_timers_free(timers) == 0);
}

int main(void) {
    by_a_timer();
    by_a_timer_whose_place_is_taken();
    by_a_loop_within();
    after_a_leap();
    by_a_callout(0);
    by_a_callout(1);
    handed_over();
    puts("ok");
    return 0;
}
