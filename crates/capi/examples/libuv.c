/* A libuv loop with microsecond timers: a flow paced at 100 us, beside a uv_timer that tries the same.
 *
 *     uv_prepare: before the loop sleeps, the backup learns the earliest deadline
 *     uv_poll:    the backup's descriptor wakes the loop
 *     uv_check:   after each batch of events, what is due is called
 *
 * cc libuv.c $(pkg-config --cflags --libs softtimers libuv)
 */
#include <softtimers.h>
#include <stdio.h>
#include <uv.h>

#define GAP_NS UINT64_C(100000)
#define PACKETS 5000

typedef struct flow {
    uint64_t last, close, sent;
} flow;

static softtimers_timers *timers;
static softtimers_backup *backup;
static softtimers_pace *pace;
static flow soft, usual;
static uv_udp_t udp;
static struct sockaddr_in to;

static void send_packet(flow *flow) {
    uint64_t now = softtimers_now();
    uv_buf_t packet = uv_buf_init("softtimers", 10);
    uv_udp_try_send(&udp, &packet, 1, (const struct sockaddr *)&to);
    flow->close += flow->sent++ && now - flow->last < GAP_NS / 2; /* back to back */
    flow->last = now;
}

static void departure(void *unused) {
    (void)unused;
    send_packet(&soft);
    if (soft.sent == PACKETS) {
        uv_stop(uv_default_loop());
        return;
    }
    uint64_t now = softtimers_now(), next = softtimers_pace_departed(pace, now, 1, 10);
    softtimers_timers_schedule_at(timers, now, next, 0, (softtimers_call){departure, NULL}, NULL);
}

static void on_usual(uv_timer_t *timer) { (void)timer; send_packet(&usual); }
static void on_check(uv_check_t *check) { (void)check; softtimers_timers_run(timers, SOFTTIMERS_READINESS, softtimers_now()); }
static void on_backup(uv_poll_t *poll, int status, int events) { (void)poll, (void)status, (void)events; softtimers_backup_expired(backup, NULL); }

static void on_prepare(uv_prepare_t *prepare) {
    (void)prepare;
    softtimers_timers_run(timers, SOFTTIMERS_IDLE, softtimers_now());
    softtimers_backup_arm(backup, softtimers_now(), softtimers_timers_poll_at(timers));
}

int main(void) {
    uv_loop_t *loop = uv_default_loop();
    uv_prepare_t prepare;
    uv_check_t check;
    uv_poll_t poll;
    uv_timer_t timer;
    softtimers_pace_config config = {.interval_ns = GAP_NS};
    if (softtimers_timers_new(NULL, &timers) || softtimers_backup_new(&backup) || softtimers_pace_new(&config, &pace)) return 1;
    uv_ip4_addr("127.0.0.1", 9, &to);
    uv_udp_init(loop, &udp);
    uv_prepare_init(loop, &prepare), uv_prepare_start(&prepare, on_prepare);
    uv_check_init(loop, &check), uv_check_start(&check, on_check);
    uv_poll_init(loop, &poll, softtimers_backup_fd(backup)), uv_poll_start(&poll, UV_READABLE, on_backup);
    uv_timer_init(loop, &timer), uv_timer_start(&timer, on_usual, 1, 1); /* 1 ms is the least there is */

    uint64_t start = softtimers_pace_start(pace, softtimers_now());
    softtimers_timers_schedule_at(timers, start, start, 0, (softtimers_call){departure, NULL}, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    double wanted = (double)(softtimers_now() - start) / GAP_NS;
    printf("softtimers: %.1f%% of the rate, %.2f%% back to back; uv_timer: %.1f%% of the rate\n",
           100 * soft.sent / wanted, 100.0 * soft.close / soft.sent, 100 * usual.sent / wanted);
    softtimers_timers_free(timers), softtimers_backup_free(backup), softtimers_pace_free(pace);
    return 0;
}
