/* A forked child arms its backup, and its parent does not wake up. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "softtimers.h"

#include <poll.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static int readable(softtimers_backup *backup, int wait_ms) {
    struct pollfd ready = {.fd = softtimers_backup_fd(backup), .events = POLLIN};
    return poll(&ready, 1, wait_ms) == 1;
}

static void one(softtimers_backup *backup, int ticks) {
    int before = softtimers_backup_fd(backup);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        uint64_t count = 0;
        uint64_t now = softtimers_now();
        CHECK(softtimers_backup_fd(backup) == before);
        CHECK(softtimers_backup_arm(backup, now, now + 1000000) == 0);
        CHECK(readable(backup, 60000));
        CHECK(softtimers_backup_expired(backup, &count) == 0 && count >= 1);
        CHECK(ticks || !readable(backup, 0));
        _exit(0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    softtimers_backup *backup = NULL;
    uint64_t far = softtimers_now() + 600000000000u;
    CHECK(softtimers_backup_new(&backup) == 0);
    CHECK(softtimers_backup_arm(backup, softtimers_now(), far) == 0);
    one(backup, 0);
    CHECK(!readable(backup, 0));
    softtimers_backup_free(backup);

    CHECK(softtimers_backup_new_tick(1000, softtimers_now(), &backup) == 0);
    one(backup, 1);
    softtimers_backup_free(backup);
    puts("ok");
    return 0;
}
