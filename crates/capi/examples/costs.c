/* What the timers of softtimers, libuv and libevent cost in the same program, and what a call costs.
 *
 * W3: N connections with a time-out each, of 20 to 43 ms. A step: one of them is heard of and its time-out is postponed;
 * then the loop expires what is due and sets that again. In real time, because libuv and libevent know no other, and in CPU
 * time of this thread. A turn of their loops makes a system call each step, so softtimers is measured with one, too
 * (epoll_wait with a time-out of 0), and the ratios compare that. Its first line, without the call, is what the timers cost
 * in a loop that has other trigger states.
 *
 *     costs [CONNECTIONS [STEPS]]      10,000 and 1,000,000
 *
 * cc -O2 costs.c $(pkg-config --cflags --libs softtimers libuv libevent_core)
 */
#include <event2/event.h>
#include <softtimers.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <uv.h>

static uint64_t state;

static uint64_t draw(uint64_t below) {
    uint64_t mixed = state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint64_t)(((unsigned __int128)(mixed ^ (mixed >> 31)) * below) >> 64);
}

static double cpu_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static uint64_t time_out_us(void) { return 20000 + draw(23000); }

static uint64_t expired;

static double report(const char *who, double start, unsigned steps) {
    double took = (cpu_ns() - start) / steps;
    printf("%-30s %7.1f ns a step, %.2f%% of them with an expiry\n", who, took, 100.0 * (double)expired / steps);
    expired = 0;
    return took;
}

static double soft(unsigned connections, unsigned steps, int epoll) {
    struct epoll_event ready;
    softtimers_timers *timers;
    softtimers_fired fired;
    uint64_t *handles = calloc(connections, sizeof *handles), now = softtimers_now();
    if (!handles || softtimers_timers_new(NULL, &timers)) exit(1);
    for (unsigned i = 0; i < connections; i++) {
        softtimers_call call = {NULL, (void *)(size_t)i};
        softtimers_timers_schedule(timers, now, time_out_us() * 1000, 0, call, &handles[i]);
    }
    double start = cpu_ns();
    for (unsigned step = 0; step < steps; step++) {
        softtimers_timers_reschedule(timers, now, handles[draw(connections)], time_out_us() * 1000, 0);
        if (epoll >= 0) epoll_wait(epoll, &ready, 1, 0);
        now = softtimers_now();
        if (softtimers_timers_trigger(timers, SOFTTIMERS_SYSCALL_EXIT, now) > 0) {
            while (softtimers_timers_next(timers, &fired) > 0) {
                size_t i = (size_t)fired.call.argument;
                softtimers_timers_schedule(timers, now, time_out_us() * 1000, 0, fired.call, &handles[i]);
                expired++;
            }
        }
    }
    double took = report(epoll >= 0 ? "softtimers, a system call each" : "softtimers", start, steps);
    softtimers_timers_free(timers), free(handles);
    return took;
}

static void on_uv(uv_timer_t *timer) {
    expired++;
    uv_timer_start(timer, on_uv, time_out_us() / 1000, 0);
}

static double libuv(unsigned connections, unsigned steps) {
    uv_loop_t loop;
    uv_timer_t *timers = calloc(connections, sizeof *timers);
    if (!timers || uv_loop_init(&loop)) exit(1);
    for (unsigned i = 0; i < connections; i++) {
        uv_timer_init(&loop, &timers[i]), uv_timer_start(&timers[i], on_uv, time_out_us() / 1000, 0);
    }
    double start = cpu_ns();
    for (unsigned step = 0; step < steps; step++) {
        uv_timer_start(&timers[draw(connections)], on_uv, time_out_us() / 1000, 0);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    double took = report("libuv", start, steps);
    for (unsigned i = 0; i < connections; i++) uv_close((uv_handle_t *)&timers[i], NULL);
    uv_run(&loop, UV_RUN_DEFAULT), uv_loop_close(&loop), free(timers);
    return took;
}

static void add(struct event *event) {
    struct timeval wait = {0, (long)time_out_us()};
    event_add(event, &wait);
}

static void on_event(evutil_socket_t fd, short what, void *event) {
    (void)fd, (void)what;
    expired++;
    add(*(struct event **)event);
}

static double libevent(unsigned connections, unsigned steps) {
    struct event_base *base = event_base_new();
    struct event **events = calloc(connections, sizeof *events);
    if (!events || !base) exit(1);
    for (unsigned i = 0; i < connections; i++) {
        events[i] = event_new(base, -1, 0, on_event, &events[i]);
        add(events[i]);
    }
    double start = cpu_ns();
    for (unsigned step = 0; step < steps; step++) {
        add(events[draw(connections)]);
        event_base_loop(base, EVLOOP_NONBLOCK);
    }
    double took = report("libevent", start, steps);
    for (unsigned i = 0; i < connections; i++) event_free(events[i]);
    event_base_free(base), free(events);
    return took;
}

/* The workload of transport timers: 40,000 packets a second, a time-out set and cancelled for each. */
static void transport(void) {
    enum { TIMES = 400000 };
    softtimers_timers *timers;
    uint64_t handle = 0;
    if (softtimers_timers_new(NULL, &timers)) exit(1);
    double start = cpu_ns();
    for (uint64_t i = 0; i < TIMES; i++) {
        softtimers_timers_schedule(timers, i * 25000, 200000000, SOFTTIMERS_SLACK_DEFAULT, (softtimers_call){NULL, NULL}, &handle);
        softtimers_timers_cancel(timers, handle, NULL);
    }
    double each = (cpu_ns() - start) / TIMES;
    printf("40,000 set and cancel a second: %.1f ns each, %.3f%% of a core\n", each, each * 40000 / 1e7);
    softtimers_timers_free(timers);
}

int main(int count, char **arguments) {
    unsigned connections = count > 1 ? (unsigned)atoi(arguments[1]) : 10000, steps = count > 2 ? (unsigned)atoi(arguments[2]) : 1000000;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) exit(1);
    for (int round = 0; round < 3; round++) {
        soft(connections, steps, -1);
        double ours = soft(connections, steps, epoll), uv = libuv(connections, steps), event = libevent(connections, steps);
        printf("of libuv's %.2f, of libevent's %.2f\n", ours / uv, ours / event);
    }
    transport();
    return 0;
}
