/* A plain epoll loop: it echoes datagrams, and sends one of its own every 250 us whatever there is to echo.
 *
 *     epoll_echo [SECONDS [PORT]]      one second and a port of the kernel's choice, where a client of its own asks
 *
 * cc epoll_echo.c $(pkg-config --cflags --libs softtimers)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <softtimers.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define GAP_NS UINT64_C(250000)

static softtimers_timers *timers;
static softtimers_pace *pace;
static int client;
static uint64_t asked;

/* The client's question: paced, so that it keeps its rate while the loop is busy echoing. */
static void ask(void *unused) {
    (void)unused;
    asked += send(client, "hello", 5, MSG_DONTWAIT) == 5;
    uint64_t now = softtimers_now(), next = softtimers_pace_departed(pace, now, 1, 5);
    softtimers_timers_schedule_at(timers, now, next, 0, (softtimers_call){ask, NULL}, NULL);
}

/* All datagrams that are there; after each the clock is looked at. */
static uint64_t echo(int server) {
    char bytes[2048];
    struct sockaddr_storage from;
    uint64_t echoed = 0;
    for (socklen_t length = sizeof from;; length = sizeof from) {
        ssize_t got = recvfrom(server, bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
        if (got < 0) return echoed;
        echoed += sendto(server, bytes, (size_t)got, MSG_DONTWAIT, (struct sockaddr *)&from, length) == got;
        softtimers_timers_run(timers, SOFTTIMERS_SYSCALL_EXIT, softtimers_now());
    }
}

int main(int count, char **arguments) {
    uint64_t span = (count > 1 ? strtoull(arguments[1], NULL, 10) : 1) * UINT64_C(1000000000), echoed = 0;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    here.sin_port = htons((uint16_t)(count > 2 ? atoi(arguments[2]) : 0));
    socklen_t length = sizeof here;
    softtimers_backup *backup;
    softtimers_pace_config config = {.interval_ns = GAP_NS};
    int server = socket(AF_INET, SOCK_DGRAM, 0), loop = epoll_create1(EPOLL_CLOEXEC);
    client = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(server, (struct sockaddr *)&here, length) || getsockname(server, (struct sockaddr *)&here, &length) ||
        connect(client, (struct sockaddr *)&here, length)) return 1;
    if (softtimers_timers_new(NULL, &timers) || softtimers_backup_new(&backup) || softtimers_pace_new(&config, &pace)) return 1;
    epoll_ctl(loop, EPOLL_CTL_ADD, server, &(struct epoll_event){.events = EPOLLIN, .data.fd = server});
    epoll_ctl(loop, EPOLL_CTL_ADD, client, &(struct epoll_event){.events = EPOLLIN, .data.fd = client});
    epoll_ctl(loop, EPOLL_CTL_ADD, softtimers_backup_fd(backup), &(struct epoll_event){.events = EPOLLIN, .data.fd = -1});

    uint64_t start = softtimers_pace_start(pace, softtimers_now()), answers = 0;
    softtimers_timers_schedule_at(timers, start, start, 0, (softtimers_call){ask, NULL}, NULL);
    while (softtimers_now() - start < span) {
        struct epoll_event ready[8];
        char bytes[16];
        softtimers_timers_run(timers, SOFTTIMERS_IDLE, softtimers_now());
        softtimers_backup_arm(backup, softtimers_now(), softtimers_timers_poll_at(timers));
        int found = epoll_wait(loop, ready, 8, -1);
        for (int i = 0; i < found; i++) {
            if (ready[i].data.fd == server) echoed += echo(server);
            else if (ready[i].data.fd == client) while (recv(client, bytes, sizeof bytes, MSG_DONTWAIT) > 0) answers++;
            else softtimers_backup_expired(backup, NULL);
        }
    }
    printf("asked %.1f%% of the rate, %llu echoed, %llu answered\n", 100.0 * asked * GAP_NS / span,
           (unsigned long long)echoed, (unsigned long long)answers);
    softtimers_timers_free(timers), softtimers_backup_free(backup), softtimers_pace_free(pace);
    close(server), close(client), close(loop);
    return 0;
}
