/* A paced flow in a program without a loop: a packet every 200 us for a second, and how evenly they left.
 *
 *     softtimers_pace    ─ says when the next packet may leave, by an absolute schedule
 *     softtimers_backup  ─ a descriptor that is readable then: poll, epoll or select wait for it and for your sockets
 *
 * cc paced.c $(pkg-config --cflags --libs softtimers)
 */
#include <arpa/inet.h>
#include <poll.h>
#include <softtimers.h>
#include <stdio.h>
#include <string.h>

#define GAP_NS UINT64_C(200000)
#define PACKETS 5000

int main(void) {
    softtimers_pace_config config = {.interval_ns = GAP_NS}; /* or .packets_per_second, .bits_per_second */
    softtimers_pace *pace;
    softtimers_backup *backup;
    int error = softtimers_pace_new(&config, &pace);
    if (!error) error = softtimers_backup_new(&backup);
    if (error) return fprintf(stderr, "softtimers: %s\n", strerror(-error)), 1;

    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    uint64_t start = softtimers_pace_start(pace, softtimers_now()), next = start, late = 0;
    while (softtimers_pace_departures(pace) + softtimers_pace_forfeited(pace) < PACKETS) {
        uint64_t now = softtimers_now();
        if (now < next) { /* sleep until then; your sockets may stand beside it */
            struct pollfd ready = {.fd = softtimers_backup_fd(backup), .events = POLLIN};
            softtimers_backup_arm(backup, now, next);
            poll(&ready, 1, -1);
            softtimers_backup_expired(backup, NULL);
            continue;
        }
        uint64_t behind = now - softtimers_pace_place(pace);
        if (behind > late) late = behind;
        sendto(udp, "paced", 5, 0, (const struct sockaddr *)&to, sizeof to);
        next = softtimers_pace_departed(pace, now, 1, 5);
    }
    double wanted = (double)(softtimers_now() - start) / GAP_NS;
    printf("%.1f%% of the rate; at most %.0f us late, %llu skipped\n", 100.0 * softtimers_pace_departures(pace) / wanted,
           late / 1e3, (unsigned long long)softtimers_pace_forfeited(pace));
    softtimers_backup_free(backup), softtimers_pace_free(pace);
    return 0;
}
