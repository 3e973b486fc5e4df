/* Each object of softtimers.h from C: what it does, and what it refuses. Virtual time but for the clock and the backup. */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

#ifndef SO_MAX_PACING_RATE
#define SO_MAX_PACING_RATE 47 /* not in strict C's headers of every system */
#endif

static int called[8];

static void count(void *argument) {
    called[(size_t)argument]++;
}

static softtimers_call call_of(size_t number) {
    softtimers_call call;
    call.function = count;
    call.argument = (void *)number;
    return call;
}

static void timers(void) {
    softtimers_timers *timers, *others;
    softtimers_config config = {0, 0};
    softtimers_fired fired;
    softtimers_stats stats;
    softtimers_call back;
    uint64_t first, second, foreign, index;
    CHECK(softtimers_timers_new(&config, &timers) == 0 && softtimers_timers_new(NULL, &others) == 0);
    CHECK(softtimers_timers_schedule(timers, 0, 40000, 50000, call_of(1), &first) == 0);
    CHECK(softtimers_timers_schedule_at(timers, 0, 20000, 0, call_of(2), &second) == 0);
    CHECK(softtimers_timers_schedule(others, 0, 40000, 0, call_of(3), &foreign) == 0);
    CHECK(first != second && softtimers_timers_len(timers) == 2 && softtimers_timers_is_pending(timers, first) == 1);
    CHECK(softtimers_timers_poll_at(timers) == 20000);

    /* Stale, foreign and invented handles: EINVAL, and nothing has changed. */
    CHECK(softtimers_timers_cancel(timers, foreign, &back) == -EINVAL);
    CHECK(softtimers_timers_reschedule(timers, 0, foreign, 1, 0) == -EINVAL);
    for (index = 0; index < 1000; index++) {
        CHECK(softtimers_timers_cancel(timers, index, NULL) == -EINVAL);
        CHECK(softtimers_timers_cancel(timers, UINT64_MAX - index, NULL) == -EINVAL);
        CHECK(softtimers_timers_cancel(timers, (UINT64_C(1) << 32) + index, NULL) == -EINVAL);
        CHECK(softtimers_timers_cancel(timers, first ^ (UINT64_C(1) << (2 + index % 62)), NULL) == -EINVAL);
    }
    CHECK(softtimers_timers_len(timers) == 2 && softtimers_timers_len(others) == 1);

    CHECK(softtimers_timers_trigger(timers, SOFTTIMERS_IDLE, 19999) == 0 || softtimers_timers_next(timers, &fired) == 0);
    CHECK(softtimers_timers_trigger(timers, SOFTTIMERS_IDLE, 21000) == 1);
    CHECK(softtimers_timers_next(timers, &fired) == 1 && fired.handle == second);
    CHECK(fired.due == 20000 && fired.lateness_ns == 1000 && fired.call.argument == (void *)2);
    CHECK(softtimers_timers_next(timers, &fired) == 0);
    CHECK(softtimers_timers_cancel(timers, second, NULL) == -EINVAL);
    CHECK(softtimers_timers_reschedule_at(timers, 21000, first, 30000, 0) == 0);
    CHECK(softtimers_timers_run(timers, SOFTTIMERS_SEND, 30000) == 1 && called[1] == 1 && called[2] == 0);
    CHECK(softtimers_timers_run(timers, 7, 30000) == -EINVAL);
    CHECK(softtimers_timers_schedule(timers, 0, 1, UINT64_MAX - 2, call_of(1), NULL) == -EINVAL);
    CHECK(softtimers_timers_schedule(timers, 0, UINT64_MAX, SOFTTIMERS_SLACK_DEFERRABLE, call_of(1), &first) == 0);
    CHECK(softtimers_timers_poll_at(timers) == SOFTTIMERS_NEVER);
    CHECK(softtimers_timers_cancel(timers, first, &back) == 0 && back.function == count && back.argument == (void *)1);
    CHECK(softtimers_timers_stats(timers, &stats) == 0 && stats.scheduled == 3 && stats.fired == 2);
    CHECK(softtimers_timers_free(timers) == 0 && softtimers_timers_free(others) == 0);
    CHECK(softtimers_timers_free(NULL) == 0);
}

/* The four operations of Aron and Druschel, section 3, against the kernel. */
static void four_operations(void) {
    softtimers_timers *timers;
    softtimers_backup *tick, *deadline;
    softtimers_backup_stats stats;
    struct pollfd readable;
    uint64_t start, count_of_ticks = 0, hz, before, after;
    CHECK(softtimers_measure_resolution() == 1000000000);
    CHECK(softtimers_timers_new(NULL, &timers) == 0 && softtimers_backup_new(&deadline) == 0);
    CHECK(softtimers_interrupt_clock_resolution(deadline) == softtimers_measure_resolution());

    start = softtimers_measure_time();
    CHECK(softtimers_schedule_soft_event(timers, 2000000, count, (void *)4, NULL) == 0);
    CHECK(softtimers_schedule_soft_event(timers, 1, NULL, NULL, NULL) == -EINVAL);
    CHECK(softtimers_backup_arm(deadline, softtimers_now(), softtimers_timers_poll_at(timers)) == 0);
    readable.fd = softtimers_backup_fd(deadline);
    readable.events = POLLIN;
    CHECK(poll(&readable, 1, 30000) == 1 && softtimers_backup_expired(deadline, NULL) == 0);
    CHECK(softtimers_timers_run(timers, SOFTTIMERS_BACKUP, softtimers_now()) == 1 && called[4] == 1);
    CHECK(softtimers_backup_stats_of(deadline, &stats) == 0 && stats.asked == 1 && stats.set == 1);
    CHECK(stats.cleared == 0 && stats.expirations == 1);
    CHECK(softtimers_backup_stats_of(deadline, NULL) == -EINVAL);
    CHECK(softtimers_measure_time() - start > 2000000);

    start = softtimers_now();
    CHECK(softtimers_backup_new_tick(1000, start, &tick) == 0);
    hz = softtimers_interrupt_clock_resolution(tick);
    CHECK(hz == 1000);
    readable.fd = softtimers_backup_fd(tick);
    /* As many as the time has room for, up to the moment of the question. */
    do {
        uint64_t more = 0;
        CHECK(poll(&readable, 1, 30000) == 1);
        before = softtimers_now();
        CHECK(softtimers_backup_expired(tick, &more) == 0);
        after = softtimers_now();
        count_of_ticks += more;
        CHECK(count_of_ticks >= (before - start) * hz / 1000000000 && count_of_ticks <= (after - start) * hz / 1000000000);
    } while (count_of_ticks < 100);

    CHECK(softtimers_backup_new_tick(0, start, &tick) == -EINVAL && softtimers_backup_new(NULL) == -EINVAL);
    CHECK(softtimers_backup_free(tick) == 0 && softtimers_backup_free(deadline) == 0 && softtimers_timers_free(timers) == 0);
}

static void pacing(void) {
    softtimers_pace_config config;
    softtimers_pace *pace;
    uint64_t next;
    memset(&config, 0, sizeof config);
    CHECK(softtimers_pace_new(&config, &pace) == -EINVAL);
    config.interval_ns = 40000;
    CHECK(softtimers_pace_new(&config, NULL) == -EINVAL && softtimers_pace_new(NULL, &pace) == -EINVAL);
    config.packets_per_second = 5;
    CHECK(softtimers_pace_new(&config, &pace) == -EINVAL);
    config.packets_per_second = 0;
    config.strategy = 99;
    CHECK(softtimers_pace_new(&config, &pace) == -EINVAL);
    config.strategy = SOFTTIMERS_PACE_EXACT;
    config.burst_interval_ns = 50000;
    CHECK(softtimers_pace_new(&config, &pace) == -EINVAL);
    config.burst_interval_ns = 0;
    CHECK(softtimers_pace_new(&config, &pace) == 0);
    CHECK(softtimers_pace_start(pace, 1000000) == 1000000);
    CHECK(softtimers_pace_departed(pace, 1000000, 1, 1) == 1040000);
    CHECK(softtimers_pace_departed(pace, 1043000, 1, 1) == 1080000);
    CHECK(softtimers_pace_departed(pace, 1150000, 1, 1) == 1172500);
    CHECK(softtimers_pace_departures(pace) == 3 && softtimers_pace_place(pace) == 1120000);
    CHECK(softtimers_pace_behind(pace, 1150000) == 1 && softtimers_pace_behind(pace, 1205000) == 3);
    CHECK(softtimers_pace_forfeited(pace) == 0);
    config.interval_ns = 10000;
    CHECK(softtimers_pace_set_rate(pace, 1150000, &config, &next) == 0 && next < 1172500);
    config.interval_ns = 0;
    config.bits_per_second = 1000000;
    CHECK(softtimers_pace_set_rate(pace, 1150000, &config, &next) == -EINVAL);
    CHECK(softtimers_pace_free(pace) == 0);
}

static unsigned pace_of(int socket) {
    unsigned rate = 0;
    socklen_t length = sizeof rate;
    CHECK(getsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &length) == 0);
    return rate;
}

static void capacity(void) {
    softtimers_capacity *capacity;
    int first = socket(AF_INET, SOCK_STREAM, 0), second = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(first >= 0 && second >= 0);
    CHECK(softtimers_capacity_new(0, &capacity) == -EINVAL && softtimers_capacity_new(1, NULL) == -EINVAL);
    CHECK(softtimers_capacity_new(1514 * 8, &capacity) == 0);
    CHECK(softtimers_capacity_pace(capacity, first) == 0 && pace_of(first) == 1448);
    CHECK(softtimers_capacity_pace(capacity, second) == 0 && pace_of(first) == 724 && pace_of(second) == 724);
    /* The same again is one share. */
    CHECK(softtimers_capacity_pace(capacity, second) == 0 && pace_of(first) == 724);
    CHECK(softtimers_capacity_set_rate(capacity, 2 * 1514 * 8) == 0 && pace_of(first) == 1448);
    CHECK(softtimers_capacity_leave(capacity, second) == 0 && pace_of(first) == 2896);
    CHECK(softtimers_capacity_leave(capacity, second) == -EINVAL && softtimers_capacity_set_rate(capacity, 0) == -EINVAL);
    CHECK(softtimers_capacity_pace(capacity, -1) == -EBADF);
    CHECK(close(second) == 0 && softtimers_capacity_free(capacity) == 0 && pace_of(first) == 2896 && close(first) == 0);
}

static void many_flows(void) {
    softtimers_pace_config slow, fast;
    softtimers_flows *flows, *others;
    softtimers_departure departure;
    uint64_t voice, video, foreign, order = 0;
    memset(&slow, 0, sizeof slow);
    fast = slow;
    slow.interval_ns = 20 * MS;
    fast.bits_per_second = 12000000;
    CHECK(softtimers_flows_new(0, 0, &flows) == 0 && softtimers_flows_new(3, 250000, &others) == 0);
    CHECK(softtimers_flows_add(flows, &slow, 0, &voice) == 0 && softtimers_flows_add(flows, &fast, 2, &video) == 0);
    CHECK(softtimers_flows_add(others, &slow, 0, &foreign) == 0 && softtimers_flows_poll_at(flows) == SOFTTIMERS_NEVER);
    CHECK(softtimers_flows_enqueue(flows, MS, voice, 160, 1) == 0 && softtimers_flows_enqueue(flows, MS, voice, 160, 2) == 0);
    CHECK(softtimers_flows_enqueue(flows, MS, video, 1500, 3) == 0 && softtimers_flows_enqueue(flows, MS, video, 1500, 4) == 0);
    CHECK(softtimers_flows_enqueue(flows, MS, video, 1500, 5) == -ENOBUFS);
    CHECK(softtimers_flows_enqueue(flows, MS, foreign, 1, 6) == -EINVAL && softtimers_flows_remove(flows, 5) == -EINVAL);
    CHECK(softtimers_flows_set_rate(flows, MS, foreign, &slow) == -EINVAL && softtimers_flows_len(flows) == 4);
    while (softtimers_flows_len(flows) > 0) {
        CHECK(softtimers_flows_turn(flows, softtimers_flows_poll_at(flows)) == 0);
        while (softtimers_flows_pop(flows, &departure) == 1) {
            order = order * 10 + departure.packet;
            CHECK(departure.flow == (departure.packet < 3 ? voice : video) && departure.lateness_ns == 0);
        }
    }
    CHECK(order == 1342 && departure.place == 21 * MS);
    CHECK(softtimers_flows_enqueue(flows, 22 * MS, voice, 160, 7) == 0 && softtimers_flows_remove(flows, voice) == 1);
    CHECK(softtimers_flows_enqueue(flows, 22 * MS, voice, 160, 7) == -EINVAL && softtimers_flows_pop(flows, NULL) == -EINVAL);
    CHECK(softtimers_flows_enqueue(others, MS + 1, foreign, 160, 8) == 0 && softtimers_flows_poll_at(others) == MS + 250000);
    CHECK(softtimers_flows_turn(others, MS + 249999) == 0 && softtimers_flows_pop(others, &departure) == 0);
    CHECK(softtimers_flows_turn(others, MS + 250000) == 0 && softtimers_flows_pop(others, &departure) == 1);
    CHECK(softtimers_flows_free(flows) == 0 && softtimers_flows_free(others) == 0);
}

static void receiving(void) {
    softtimers_policy_config config = {SOFTTIMERS_POLICY_DELAY_BOUND, 0, 0};
    softtimers_policy *policy;
    softtimers_feedback *feedback;
    softtimers_cpu_limit *limit;
    softtimers_next next;
    uint64_t packet;
    CHECK(softtimers_policy_new(&config, &policy) == 0);
    for (packet = 1; packet <= 20; packet++) {
        uint64_t at = 500000 * packet;
        CHECK(softtimers_policy_idle(policy, at - 400000, NULL) == 0);
        CHECK(softtimers_policy_looked(policy, at, at, 1, &next) == 0 && next.what == SOFTTIMERS_LOOK_ARMED);
    }
    CHECK(softtimers_policy_looked(policy, 2, 1, 1, &next) == -EINVAL && softtimers_policy_free(policy) == 0);
    config.kind = SOFTTIMERS_POLICY_CONSTANT_PERIOD;
    CHECK(softtimers_policy_new(&config, &policy) == -EINVAL);
    config.time_ns = 250000;
    CHECK(softtimers_policy_new(&config, &policy) == 0);
    CHECK(softtimers_policy_looked(policy, 500000, 510000, 3, &next) == 0);
    CHECK(next.what == SOFTTIMERS_LOOK_AT && next.time == 750000 && softtimers_policy_free(policy) == 0);
    config.kind = 8;
    CHECK(softtimers_policy_new(&config, &policy) == -EINVAL);

    CHECK(softtimers_feedback_new(0, &feedback) == -EINVAL && softtimers_feedback_new(32, &feedback) == 0);
    CHECK(softtimers_feedback_offered(feedback, 1000, 23) == 0 && softtimers_feedback_offered(feedback, 1000, 24) > 1000);
    CHECK(softtimers_feedback_drained(feedback, 2000, 9) > 0 && softtimers_feedback_drained(feedback, 3000, 8) == 0);
    CHECK(softtimers_feedback_free(feedback) == 0);

    CHECK(softtimers_cpu_limit_new(101, 0, &limit) == -EINVAL && softtimers_cpu_limit_new(25, 0, &limit) == 0);
    CHECK(softtimers_cpu_limit_begin(limit, 0) == 0 && softtimers_cpu_limit_end(limit, 2000000, 2000000) == 0);
    CHECK(softtimers_cpu_limit_begin(limit, 2000000) == 0);
    CHECK(softtimers_cpu_limit_end(limit, 2600000, 2600000) == 10000000);
    CHECK(softtimers_cpu_limit_input(limit, 10000000) == 0 && softtimers_cpu_limit_free(limit) == 0);
}

static void histogram(void) {
    softtimers_histogram *one, *two;
    softtimers_timers *timers;
    CHECK(softtimers_histogram_new(&one) == 0 && softtimers_histogram_new(&two) == 0);
    CHECK(softtimers_histogram_count(one) == 0 && softtimers_histogram_quantile(one, 0.5) == 0);
    CHECK(softtimers_histogram_record(one, 800, 3) == 0 && softtimers_histogram_record(two, 70000, 1) == 0);
    CHECK(softtimers_histogram_record(two, 1, UINT64_MAX) == -EOVERFLOW);
    CHECK(softtimers_histogram_merge(one, two) == 0 && softtimers_histogram_merge(one, one) == -EINVAL);
    CHECK(softtimers_histogram_count(one) == 4 && softtimers_histogram_min(one) == 800);
    CHECK(softtimers_histogram_max(one) == 70000 && softtimers_histogram_share_above(one, 10000) == 0.25);
    CHECK(softtimers_histogram_mean(one) == (3 * 800 + 70000) / 4.0);
    CHECK(softtimers_timers_new(NULL, &timers) == 0);
    CHECK(softtimers_timers_schedule(timers, 0, 1000, 0, call_of(5), NULL) == 0);
    CHECK(softtimers_timers_run(timers, SOFTTIMERS_IDLE, 9000) == 1 && softtimers_histogram_clear(one) == 0);
    CHECK(softtimers_timers_lateness(timers, one) == 0 && softtimers_histogram_max(one) == 8000);
    CHECK(softtimers_timers_free(timers) == 0);
    CHECK(softtimers_histogram_free(one) == 0 && softtimers_histogram_free(two) == 0);
}

static void path(void) {
    softtimers_path slow;
    softtimers_wan *wan;
    softtimers_delivery delivery;
    softtimers_wan_counters counters;
    int packet, full = 0;
    memset(&slow, 0, sizeof slow);
    slow.bits_per_second = 100000000;
    slow.queue_packets = 20;
    slow.delay_ns = 50 * MS;
    CHECK(softtimers_wan_new(&slow, NULL, 7, &wan) == 0);
    for (packet = 0; packet < 30; packet++) {
        full += softtimers_wan_offer(wan, 0, SOFTTIMERS_UP, 1500, (uint64_t)packet) == SOFTTIMERS_QUEUE_FULL;
    }
    CHECK(full == 9 && softtimers_wan_poll_at(wan) == 50 * MS + 120000);
    CHECK(softtimers_wan_pop_due(wan, 50 * MS + 119999, &delivery) == 0);
    CHECK(softtimers_wan_pop_due(wan, 50 * MS + 120000, &delivery) == 1);
    CHECK(delivery.packet == 0 && delivery.bytes == 1500 && delivery.way == SOFTTIMERS_UP && delivery.copy == 0);
    CHECK(softtimers_wan_count(wan, SOFTTIMERS_UP, &counters) == 0);
    CHECK(counters.offered == 30 && counters.queue_drops == 9 && counters.delivered == 1 && counters.held == 20);
    CHECK(softtimers_wan_offer(wan, 0, 2, 1, 1) == -EINVAL);
    CHECK(softtimers_wan_free(wan) == 0);
    slow.queue_bytes = 5;
    CHECK(softtimers_wan_new(&slow, NULL, 7, &wan) == -EINVAL);
    slow.queue_bytes = 0;
    slow.loss_ppb = 1000000001;
    CHECK(softtimers_wan_new(NULL, &slow, 7, &wan) == -EINVAL);
}

int main(void) {
    uint64_t now = softtimers_now();
    CHECK(now > 0 && softtimers_now() >= now && strcmp(softtimers_version(), "0.2.0") == 0);
    timers();
    four_operations();
    pacing();
    capacity();
    many_flows();
    receiving();
    histogram();
    path();
    puts("ok");
    return 0;
}
