/* A libevent loop with microsecond timers: a flow paced at 100 us, beside an event of 100 us that tries the same.
 *
 *     event_base_loop(EVLOOP_ONCE) ─ sleeps, at most until the backup's descriptor is readable; calls what is ready
 *     softtimers_timers_run        ─ calls what is due
 *     softtimers_backup_arm        ─ the backup learns the earliest deadline
 *
 * cc libevent.c $(pkg-config --cflags --libs softtimers libevent_core)
 */
#include <arpa/inet.h>
#include <event2/event.h>
#include <softtimers.h>
#include <stdio.h>

#define GAP_NS UINT64_C(100000)
#define PACKETS 5000

typedef struct flow {
    uint64_t last, close, sent;
} flow;

static softtimers_timers *timers;
static softtimers_backup *backup;
static softtimers_pace *pace;
static flow soft, usual;
static int udp;
static struct sockaddr_in to;

static void send_packet(flow *flow) {
    uint64_t now = softtimers_now();
    sendto(udp, "softtimers", 10, 0, (const struct sockaddr *)&to, sizeof to);
    flow->close += flow->sent++ && now - flow->last < GAP_NS / 2; /* back to back */
    flow->last = now;
}

static void departure(void *unused) {
    (void)unused;
    send_packet(&soft);
    uint64_t now = softtimers_now(), next = softtimers_pace_departed(pace, now, 1, 10);
    if (soft.sent < PACKETS) {
        softtimers_timers_schedule_at(timers, now, next, 0, (softtimers_call){departure, NULL}, NULL);
    }
}

static void on_backup(evutil_socket_t fd, short what, void *unused) {
    (void)fd, (void)what, (void)unused;
    softtimers_backup_expired(backup, NULL);
}

static void on_usual(evutil_socket_t fd, short what, void *unused) {
    (void)fd, (void)what, (void)unused;
    send_packet(&usual);
}

int main(void) {
    struct event_config *precise = event_config_new();
    event_config_set_flag(precise, EVENT_BASE_FLAG_PRECISE_TIMER);
    struct event_base *base = event_base_new_with_config(precise);
    softtimers_pace_config config = {.interval_ns = GAP_NS};
    if (!base || softtimers_timers_new(NULL, &timers) || softtimers_backup_new(&backup) || softtimers_pace_new(&config, &pace)) return 1;
    udp = socket(AF_INET, SOCK_DGRAM, 0);
    to.sin_family = AF_INET, to.sin_port = htons(9), to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct event *wake = event_new(base, softtimers_backup_fd(backup), EV_READ | EV_PERSIST, on_backup, NULL);
    struct event *every = event_new(base, -1, EV_PERSIST, on_usual, NULL);
    event_add(wake, NULL), event_add(every, &(struct timeval){0, GAP_NS / 1000});

    uint64_t start = softtimers_pace_start(pace, softtimers_now());
    softtimers_timers_schedule_at(timers, start, start, 0, (softtimers_call){departure, NULL}, NULL);
    while (softtimers_timers_run(timers, SOFTTIMERS_READINESS, softtimers_now()) >= 0 && soft.sent < PACKETS) {
        softtimers_backup_arm(backup, softtimers_now(), softtimers_timers_poll_at(timers));
        event_base_loop(base, EVLOOP_ONCE);
    }
    double wanted = (double)(softtimers_now() - start) / GAP_NS;
    printf("softtimers: %.1f%% of the rate, %.2f%% back to back; libevent: %.1f%% of the rate, %.2f%% back to back\n",
           100 * soft.sent / wanted, 100.0 * soft.close / soft.sent, 100 * usual.sent / wanted, 100.0 * usual.close / usual.sent);
    event_free(wake), event_free(every), event_base_free(base), event_config_free(precise);
    softtimers_timers_free(timers), softtimers_backup_free(backup), softtimers_pace_free(pace);
    return 0;
}
