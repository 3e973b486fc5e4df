/* Calls of each kind of object in any order with any arguments, for AddressSanitizer and valgrind: RANDOM_CALLS rounds by a fixed seed. */
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

/* An argument that may be missing. An object may not: misuse.c has those. */
static void *maybe(void *argument) {
    return draw() % 16 ? argument : NULL;
}

static softtimers_pace *pace;
static softtimers_flows *flows;
static softtimers_policy *policy;
static softtimers_feedback *feedback;
static softtimers_cpu_limit *limit;

static softtimers_pace_config rate(void) {
    softtimers_pace_config config;
    memset(&config, 0, sizeof config);
    *(draw() % 2 ? &config.interval_ns : draw() % 2 ? &config.packets_per_second : &config.bits_per_second) = duration();
    if (draw() % 4 == 0) {
        config.burst_interval_ns = duration();
        config.strategy = (uint32_t)(draw() % 5);
    }
    return config;
}

/* Objects that are made now and then anew, by whatever is accepted. */
static int anew(void) {
    softtimers_policy_config config;
    softtimers_pace_config of_pace = rate();
    softtimers_pace *another_pace;
    softtimers_policy *another;
    int done;
    memset(&config, 0, sizeof config);
    config.kind = (uint32_t)(draw() % 10);
    config.time_ns = duration();
    done = softtimers_policy_new(maybe(&config), &another);
    if (done == 0) {
        CHECK(softtimers_policy_free(policy) == 0);
        policy = another;
    }
    CHECK(done == 0 || done == -EINVAL);
    done = softtimers_pace_new(maybe(&of_pace), &another_pace);
    if (done == 0) {
        CHECK(softtimers_pace_free(pace) == 0);
        pace = another_pace;
    }
    return done;
}

static int pacing_and_receiving(uint64_t now) {
    softtimers_pace_config config = rate();
    softtimers_departure departure;
    softtimers_next next;
    uint64_t flow = 0, time;
    int done = 0;
    switch (draw() % 16) {
    case 0: return anew();
    case 1: (void)softtimers_pace_start(pace, now); break;
    case 2: (void)softtimers_pace_departed(pace, now, (uint32_t)duration(), (uint32_t)duration()); break;
    case 3: return softtimers_pace_set_rate(pace, now, maybe(&config), maybe(&time));
    case 4: (void)softtimers_pace_behind(pace, now), (void)softtimers_pace_forfeited(pace); break;
    case 5: keep(done = softtimers_flows_add(flows, maybe(&config), (uint32_t)(draw() % 9), &flow), flow); break;
    case 6: return softtimers_flows_remove(flows, any_handle());
    case 7: return softtimers_flows_set_rate(flows, now, any_handle(), maybe(&config));
    case 8: case 9: done = softtimers_flows_enqueue(flows, now, any_handle(), (uint32_t)duration(), draw()); break;
    case 10: return softtimers_flows_turn(flows, now);
    case 11: return softtimers_flows_pop(flows, maybe(&departure));
    case 12:
        done = softtimers_policy_arrived(policy, draw() % 8 ? now : duration());
        return done == 0 ? softtimers_policy_looked(policy, now, now + draw() % 9, (uint32_t)draw(), maybe(&next)) : done;
    case 13: return softtimers_policy_idle(policy, now, maybe(&next));
    case 14:
        (void)softtimers_feedback_offered(feedback, now, (uint32_t)duration());
        (void)softtimers_feedback_drained(feedback, now, (uint32_t)duration());
        (void)softtimers_feedback_input(feedback, duration());
        break;
    default:
        done = softtimers_cpu_limit_begin(limit, duration());
        (void)softtimers_cpu_limit_end(limit, now, duration());
        (void)softtimers_cpu_limit_input(limit, duration());
    }
    /* A queue that has no room is no mistake. */
    return done == -ENOBUFS ? 0 : done;
}

int main(void) {
    softtimers_timers *timers;
    softtimers_callouts *callouts;
    softtimers_itimers *itimers;
    softtimers_backup *backup;
    softtimers_histogram *histogram;
    softtimers_call call = {nothing, NULL};
    softtimers_policy_config by_default;
    softtimers_pace_config even;
    uint64_t now = 0, handle = 0;
    int round, done = 0;
    CHECK(softtimers_timers_new(NULL, &timers) == 0 && softtimers_callouts_new(&callouts) == 0);
    CHECK(softtimers_itimers_new(40, &itimers) == 0 && softtimers_backup_new(&backup) == 0);
    CHECK(softtimers_histogram_new(&histogram) == 0 && softtimers_flows_new(0, 250000, &flows) == 0);
    CHECK(softtimers_feedback_new(32, &feedback) == 0 && softtimers_cpu_limit_new(25, 0, &limit) == 0);
    memset(&by_default, 0, sizeof by_default);
    memset(&even, 0, sizeof even);
    even.interval_ns = 40000;
    CHECK(softtimers_policy_new(&by_default, &policy) == 0 && softtimers_pace_new(&even, &pace) == 0);
    for (round = 0; round < RANDOM_CALLS; round++) {
        struct itimerval value = {{(long)duration(), 3}, {(long)(draw() % 3) - 1, (long)(draw() % 3) - 1}}, other = value;
        softtimers_path path;
        softtimers_wan *wan;
        softtimers_delivery delivery;
        softtimers_expired expired;
        softtimers_fired fired;
        memset(&path, 0, sizeof path);
        call.argument = (void *)(size_t)(draw() % 32 * 64);
        switch (draw() % 26) {
        case 0: case 1: case 2:
            done = softtimers_timers_schedule(timers, now, duration(), duration(), call, maybe(&handle));
            keep(done, handle);
            break;
        case 3: done = softtimers_timers_cancel(timers, any_handle(), maybe(&call)); break;
        case 4: done = softtimers_timers_reschedule(timers, now, any_handle(), duration(), duration()); break;
        case 5: done = softtimers_timers_run(timers, (uint32_t)(draw() % 8), now); break;
        case 6: done = softtimers_timers_next(timers, maybe(&fired)); break;
        case 7: done = softtimers_timeout(callouts, nothing, call.argument, duration()); break;
        case 8: done = softtimers_untimeout(callouts, draw() % 8 ? nothing : NULL, call.argument); break;
        case 9: keep(done = softtimers_setcallout(callouts, nothing, NULL, duration(), &handle), handle); break;
        case 10: done = softtimers_unsetcallout(callouts, any_handle()); break;
        case 11: done = softtimers_hardclock(callouts); break;
        case 12: keep(done = softtimers_itimer_create(itimers, duration(), duration(), draw(), &handle), handle); break;
        case 13: done = softtimers_itimer_reset(itimers, any_handle(), duration(), duration(), 1, NULL); break;
        case 14: done = softtimers_itimer_cancel(itimers, any_handle(), NULL); break;
        case 15: done = softtimers_itimer_reap(itimers, maybe(&expired)); break;
        case 16:
            done = softtimers_multi_setitimer(itimers, maybe(&value), draw() % 2 ? &value : maybe(&other));
            done = done == 0 ? softtimers_multi_getitimer(itimers, maybe(&other)) : done;
            break;
        case 17: done = softtimers_histogram_record(histogram, duration(), duration()); break;
        case 18: done = softtimers_backup_arm(backup, now, draw() % 4 ? duration() : SOFTTIMERS_NEVER); break;
        case 19:
            path.bits_per_second = duration();
            path.delay_ns = duration();
            path.loss_ppb = (uint32_t)duration();
            done = softtimers_wan_new(maybe(&path), NULL, draw(), &wan);
            if (done == 0) {
                (void)softtimers_wan_offer(wan, now, (uint32_t)(draw() % 3), (uint32_t)draw(), 1);
                (void)softtimers_wan_pop_due(wan, softtimers_wan_poll_at(wan), maybe(&delivery));
                CHECK(softtimers_wan_free(wan) == 0);
            }
            break;
        default: done = pacing_and_receiving(now);
        }
        CHECK(done >= 0 || done == -EINVAL || done == -EAGAIN || done == -EOVERFLOW);
        now += draw() % 100000;
    }
    CHECK(softtimers_timers_free(timers) == 0 && softtimers_callouts_free(callouts) == 0);
    CHECK(softtimers_itimers_free(itimers) == 0 && softtimers_backup_free(backup) == 0);
    CHECK(softtimers_histogram_free(histogram) == 0 && softtimers_pace_free(pace) == 0 && softtimers_flows_free(flows) == 0);
    CHECK(softtimers_policy_free(policy) == 0 && softtimers_feedback_free(feedback) == 0 && softtimers_cpu_limit_free(limit) == 0);
    puts("ok");
    return 0;
}
