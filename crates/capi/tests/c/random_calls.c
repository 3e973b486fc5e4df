/* Calls in any order with any arguments, for AddressSanitizer and valgrind: RANDOM_CALLS rounds by a fixed seed. */
#include "check.h"

#ifndef RANDOM_CALLS
#define RANDOM_CALLS 20000
#endif

static uint64_t state = 42, handles[64];
static unsigned made;

static uint64_t draw(void) {
    uint64_t mixed = state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

/* Often short, now and then absurd. */
static uint64_t duration(void) {
    return draw() >> (draw() % 64);
}

static uint64_t any_handle(void) {
    return draw() % 8 ? handles[draw() % 64] : duration();
}

static void keep(int done, uint64_t handle) {
    if (done == 0) {
        handles[made++ % 64] = handle;
    }
}

static void nothing(void *argument) {
    (void)argument;
}

static void *maybe(void *object) {
    return draw() % 16 ? object : NULL;
}

int main(void) {
    softtimers_timers *timers;
    softtimers_callouts *callouts;
    softtimers_itimers *itimers;
    softtimers_backup *backup;
    softtimers_histogram *histogram;
    softtimers_call call = {nothing, NULL};
    uint64_t now = 0, handle = 0;
    int round, done = 0;
    CHECK(softtimers_timers_new(NULL, &timers) == 0 && softtimers_callouts_new(&callouts) == 0);
    CHECK(softtimers_itimers_new(40, &itimers) == 0 && softtimers_backup_new(&backup) == 0);
    CHECK(softtimers_histogram_new(&histogram) == 0);
    for (round = 0; round < RANDOM_CALLS; round++) {
        struct itimerval value = {{(long)duration(), 3}, {(long)(draw() % 3) - 1, (long)(draw() % 3) - 1}}, other = value;
        softtimers_path path;
        softtimers_wan *wan;
        softtimers_delivery delivery;
        softtimers_expired expired;
        softtimers_fired fired;
        memset(&path, 0, sizeof path);
        call.argument = (void *)(size_t)(draw() % 32 * 64);
        switch (draw() % 20) {
        case 0: case 1: case 2:
            done = softtimers_timers_schedule(maybe(timers), now, duration(), duration(), call, maybe(&handle));
            keep(done, handle);
            break;
        case 3: done = softtimers_timers_cancel(maybe(timers), any_handle(), maybe(&call)); break;
        case 4: done = softtimers_timers_reschedule(maybe(timers), now, any_handle(), duration(), duration()); break;
        case 5: done = softtimers_timers_run(maybe(timers), (uint32_t)(draw() % 8), now); break;
        case 6: done = softtimers_timers_next(maybe(timers), maybe(&fired)); break;
        case 7: done = softtimers_timeout(maybe(callouts), nothing, call.argument, duration()); break;
        case 8: done = softtimers_untimeout(maybe(callouts), draw() % 8 ? nothing : NULL, call.argument); break;
        case 9: keep(done = softtimers_setcallout(callouts, nothing, NULL, duration(), &handle), handle); break;
        case 10: done = softtimers_unsetcallout(maybe(callouts), any_handle()); break;
        case 11: done = softtimers_hardclock(maybe(callouts)); break;
        case 12: keep(done = softtimers_itimer_create(itimers, duration(), duration(), draw(), &handle), handle); break;
        case 13: done = softtimers_itimer_reset(maybe(itimers), any_handle(), duration(), duration(), 1, NULL); break;
        case 14: done = softtimers_itimer_cancel(maybe(itimers), any_handle(), NULL); break;
        case 15: done = softtimers_itimer_reap(maybe(itimers), maybe(&expired)); break;
        case 16:
            done = softtimers_multi_setitimer(maybe(itimers), maybe(&value), draw() % 2 ? &value : maybe(&other));
            done = done == 0 ? softtimers_multi_getitimer(maybe(itimers), maybe(&other)) : done;
            break;
        case 17: done = softtimers_histogram_record(maybe(histogram), duration(), duration()); break;
        case 18: done = softtimers_backup_arm(maybe(backup), now, draw() % 4 ? duration() : SOFTTIMERS_NEVER); break;
        default:
            path.bits_per_second = duration();
            path.delay_ns = duration();
            path.loss_ppb = (uint32_t)duration();
            done = softtimers_wan_new(maybe(&path), NULL, draw(), &wan);
            if (done == 0) {
                (void)softtimers_wan_offer(wan, now, (uint32_t)(draw() % 3), (uint32_t)draw(), 1);
                (void)softtimers_wan_pop_due(wan, softtimers_wan_poll_at(wan), maybe(&delivery));
                CHECK(softtimers_wan_free(wan) == 0);
            }
        }
        CHECK(done >= 0 || done == -EINVAL || done == -EAGAIN || done == -EOVERFLOW);
        now += draw() % 100000;
    }
    CHECK(softtimers_timers_free(timers) == 0 && softtimers_callouts_free(callouts) == 0);
    CHECK(softtimers_itimers_free(itimers) == 0 && softtimers_backup_free(backup) == 0);
    CHECK(softtimers_histogram_free(histogram) == 0);
    puts("ok");
    return 0;
}
