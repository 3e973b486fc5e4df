/* The timer interfaces of BSD from C: callouts, and many interval timers over both interfaces of the kernel. */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static const struct timeval NEW = {-1, -1};
static softtimers_callouts *callouts;
static int order[16], calls;

static void note(void *argument) {
    order[calls++] = (int)(size_t)argument;
}

static void again(void *argument) {
    note(argument);
    CHECK(softtimers_timeout(callouts, again, argument, 0) == 0);
    if (calls < 8) {
        /* A tick inside a call: its work is wanted, and nothing runs inside. */
        int before = calls;
        CHECK(softtimers_hardclock(callouts) == 1 && calls == before);
    }
}

static void callout(void) {
    softtimers_callout_stats stats;
    uint64_t handle, stale;
    int i;
    CHECK(softtimers_callouts_new(&callouts) == 0);
    CHECK(softtimers_timeout(callouts, note, (void *)1, 2) == 0 && softtimers_timeout(callouts, note, (void *)1, 3) == 0);
    CHECK(softtimers_setcallout(callouts, note, (void *)2, 2, &handle) == 0);
    CHECK(softtimers_untimeout(callouts, note, (void *)2) == 0);
    CHECK(softtimers_untimeout(callouts, note, (void *)1) == 1);
    CHECK(softtimers_callouts_stats(callouts, &stats) == 0 && stats.pending == 2 && stats.hashed == 1);
    CHECK(softtimers_tick(callouts) == 0 && softtimers_tick(callouts) == 1);
    CHECK(softtimers_softclock(callouts) == 2 && order[0] == 1 && order[1] == 2);
    CHECK(softtimers_unsetcallout(callouts, handle) == -EINVAL);

    /* Inline unless something is held. */
    CHECK(softtimers_timeout(callouts, note, (void *)3, 1) == 0 && softtimers_hardclock(callouts) == 0 && calls == 3);
    CHECK(softtimers_timeout(callouts, note, (void *)4, 1) == 0 && softtimers_hold(callouts) == 0);
    CHECK(softtimers_hardclock(callouts) == 1 && calls == 3 && softtimers_release(callouts) == 1);
    CHECK(softtimers_softclock(callouts) == 1 && calls == 4);
    CHECK(softtimers_timeout(callouts, again, (void *)5, 1) == 0 && softtimers_hardclock(callouts) == 0 && calls == 8);
    CHECK(softtimers_untimeout(callouts, again, (void *)5) == 1);

    /* In pieces. */
    softtimers_call due;
    CHECK(softtimers_timeout(callouts, note, (void *)6, 1) == 0 && softtimers_tick(callouts) == 1);
    CHECK(softtimers_softclock_step(callouts, &due) == 1 && due.function == note && due.argument == (void *)6);
    CHECK(softtimers_softclock_step(callouts, &due) == 0 && softtimers_softclock_step(callouts, NULL) == -EINVAL);

    for (stale = handle, i = 0; i < 10000; i++) {
        CHECK(softtimers_setcallout(callouts, note, NULL, 9, &handle) == 0 && handle != stale);
        CHECK(softtimers_unsetcallout(callouts, stale) == -EINVAL && softtimers_unsetcallout(callouts, handle) == 0);
        stale = handle;
    }
    CHECK(softtimers_timeout(callouts, NULL, NULL, 1) == -EINVAL);
    CHECK(softtimers_setcallout(callouts, note, NULL, 1, NULL) == -EINVAL);
    CHECK(softtimers_timeout(callouts, note, NULL, UINT64_MAX) == 0 && softtimers_callouts_free(callouts) == 0);
}

static int reap(softtimers_itimers *set, struct itimerval *value) {
    value->it_value = NEW;
    return softtimers_multi_getitimer(set, value);
}

/* Figures 6 and 7, on either interface of the kernel. */
static void figures(softtimers_itimers *set) {
    struct itimerval value = {{0, 0}, {0, 1000}}, ovalue = {{7, 9}, {-1, -1}}, bad, seen, before;
    struct timeval handle;
    uint64_t start = softtimers_now();
    CHECK(softtimers_multi_setitimer(set, &value, NULL) == -EINVAL && softtimers_multi_setitimer(set, NULL, &ovalue) == -EINVAL);
    CHECK(softtimers_multi_getitimer(set, NULL) == -EINVAL);
    CHECK(reap(set, &seen) == -EAGAIN);
    CHECK(softtimers_multi_setitimer(set, &value, &ovalue) == 0 && ovalue.it_interval.tv_sec == 7);
    handle = ovalue.it_value;
    CHECK(handle.tv_sec != -1 && softtimers_itimers_len(set) == 1);
    while (reap(set, &seen) == -EAGAIN) {
        CHECK(softtimers_now() - start < PATIENCE_NS);
    }
    CHECK(softtimers_now() - start >= MS && memcmp(&seen.it_value, &handle, sizeof handle) == 0);
    CHECK(seen.it_interval.tv_sec == 7 && seen.it_interval.tv_usec == 9 && softtimers_itimers_len(set) == 0);

    /* A dead handle is refused everywhere, and the arguments are as they were. */
    memset(&bad, 0, sizeof bad);
    before.it_interval = NEW;
    before.it_value = handle;
    seen = before;
    CHECK(softtimers_multi_setitimer(set, &value, &seen) == -EINVAL && memcmp(&seen, &before, sizeof seen) == 0);
    CHECK(softtimers_multi_setitimer(set, &bad, &seen) == -EINVAL && memcmp(&seen, &before, sizeof seen) == 0);
    CHECK(softtimers_multi_getitimer(set, &seen) == -EINVAL && memcmp(&seen, &before, sizeof seen) == 0);
    bad.it_value.tv_usec = 1000000;
    seen.it_value = NEW;
    CHECK(softtimers_multi_setitimer(set, &bad, &seen) == -EINVAL && softtimers_itimers_len(set) == 0);
    /* Both arguments the same: {-1, -1} is no time, a handle no time to set. */
    CHECK(softtimers_multi_setitimer(set, &seen, &seen) == -EINVAL);

    /* Reset: former value, new label. */
    value.it_value.tv_sec = value.it_interval.tv_sec = 100;
    ovalue.it_value = NEW;
    CHECK(softtimers_multi_setitimer(set, &value, &ovalue) == 0);
    ovalue.it_interval.tv_sec = 8;
    handle = ovalue.it_value;
    CHECK(softtimers_multi_setitimer(set, &value, &ovalue) == 0);
    CHECK(ovalue.it_interval.tv_sec == 100 && (ovalue.it_value.tv_sec == 99 || ovalue.it_value.tv_sec == 100));
    memset(&bad, 0, sizeof bad);
    ovalue.it_value = handle;
    CHECK(softtimers_multi_setitimer(set, &bad, &ovalue) == 0 && softtimers_itimers_len(set) == 0);
    CHECK(ovalue.it_value.tv_sec > 90 && ovalue.it_interval.tv_sec == 100);
}

/* A thousand periods, reaped late again and again: each expiry is a whole number of periods after the first. */
static void periods(softtimers_itimers *set) {
    const uint64_t period = 100000;
    softtimers_expired expired;
    uint64_t handle, first = 0, reaped = 0, start = softtimers_now(), late = 0;
    CHECK(softtimers_itimer_create(set, period, period, 42, &handle) == 0);
    while (reaped < 1000) {
        uint64_t rest = softtimers_now() + (reaped % 7) * period;
        while (softtimers_now() < rest) {
        }
        while (reaped < 1000 && softtimers_itimer_reap(set, &expired) == 0) {
            CHECK(expired.handle == handle && expired.label == 42 && expired.runs == 1);
            first = reaped++ == 0 ? expired.at : first;
            CHECK(expired.at == first + (reaped - 1) * period && expired.at <= softtimers_now());
            late += softtimers_now() - expired.at > period;
        }
        CHECK(softtimers_now() - start < PATIENCE_NS);
    }
    CHECK(late > 100 && softtimers_itimer_cancel(set, handle, NULL) == 0);
}

static void refusals(softtimers_itimers *set, softtimers_itimers *other) {
    softtimers_setting setting = {1, 2};
    uint64_t mine, foreign, number;
    CHECK(softtimers_itimer_create(set, 3600000 * MS, 0, 1, &mine) == 0);
    CHECK(softtimers_itimer_create(other, 3600000 * MS, 0, 1, &foreign) == 0);
    for (number = 0; number < 2000; number++) {
        uint64_t handle = number == 0 ? foreign : number < 1000 ? number : mine ^ (UINT64_C(1) << (number % 64));
        CHECK(softtimers_itimer_reset(set, handle, 1, 1, 1, &setting) == -EINVAL);
        CHECK(softtimers_itimer_cancel(set, handle, &setting) == -EINVAL);
        CHECK(softtimers_itimer_query(set, handle, &setting) == -EINVAL);
        CHECK(setting.value_ns == 1 && setting.interval_ns == 2 && softtimers_itimers_len(set) == 1);
    }
    CHECK(softtimers_itimer_create(set, 0, 5, 1, &number) == -EINVAL);
    CHECK(softtimers_itimer_create(set, 5, 5, 1, NULL) == -EINVAL);
    CHECK(softtimers_itimer_reap(set, NULL) == -EINVAL);
    CHECK(softtimers_itimer_query(set, mine, NULL) == -EINVAL && softtimers_itimer_reset(set, mine, 0, 0, 0, NULL) == -EINVAL);
    CHECK(softtimers_itimer_query(set, mine, &setting) == 0 && setting.interval_ns == 0);
    CHECK(softtimers_itimer_cancel(set, mine, NULL) == 0 && softtimers_itimer_cancel(other, foreign, NULL) == 0);
}

static volatile sig_atomic_t of_timer, of_kernel;

static void on_alarm(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    if (info->si_code == SI_TIMER) {
        of_timer = of_timer + 1;
    } else {
        of_kernel = of_kernel + 1;
    }
}

/* N timers expire while their signal is blocked: one is pending, and all N are reaped. Nobody looks at them in between, for
 * who looks sets the kernel's timer anew: where the first is due before the last is set, it is done again with more time. */
static void coalesced(softtimers_itimers *set) {
    enum { N = 500 };
    sigset_t alarm, pending;
    softtimers_expired expired;
    uint64_t handle, label, start = softtimers_now(), first = MS, begun, last;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    CHECK(sigprocmask(SIG_BLOCK, &alarm, NULL) == 0);
    of_timer = 0;
    for (;;) {
        begun = softtimers_now();
        for (label = 0; label < N; label++) {
            CHECK(softtimers_itimer_create(set, first + label, 0, label, &handle) == 0);
        }
        last = softtimers_now() + first + N;
        if (softtimers_now() < begun + first) {
            break;
        }
        while (softtimers_itimers_len(set) > 0) {
            (void)softtimers_itimer_reap(set, &expired);
            CHECK(softtimers_now() - start < PATIENCE_NS);
        }
        CHECK(sigprocmask(SIG_UNBLOCK, &alarm, NULL) == 0 && sigprocmask(SIG_BLOCK, &alarm, NULL) == 0);
        of_timer = 0;
        first *= 4;
    }
    do {
        CHECK(sigpending(&pending) == 0 && softtimers_now() - start < PATIENCE_NS);
    } while (softtimers_now() <= last || !sigismember(&pending, SIGALRM));
    CHECK(sigprocmask(SIG_UNBLOCK, &alarm, NULL) == 0 && of_timer == 1);
    for (label = 0; label < N; label++) {
        CHECK(softtimers_itimer_reap(set, &expired) == 0 && expired.label == label);
    }
    CHECK(softtimers_itimer_reap(set, &expired) == -EAGAIN && softtimers_itimers_len(set) == 0);
}

/* The real ITIMER_REAL runs beside a set with the same signal. Only where the set's signal waits at the very moment of its
 * expiry does the kernel keep the one that waits and drop ITIMER_REAL's: a program that is stopped then asks again. */
static void real_timer(softtimers_itimers *set) {
    struct itimerval real = {{0, 0}, {0, 30000}}, left;
    softtimers_expired expired;
    uint64_t handle, start = softtimers_now(), set_at = start;
    int reaped = 0;
    of_timer = of_kernel = 0;
    CHECK(setitimer(ITIMER_REAL, &real, NULL) == 0);
    CHECK(softtimers_itimer_create(set, 2 * MS, 2 * MS, 1, &handle) == 0);
    while (of_kernel == 0 || of_timer == 0 || reaped < 5) {
        /* Who looks all the time sees an expiry before its signal, which is then not sent. */
        (void)poll(NULL, 0, 1);
        reaped += softtimers_itimer_reap(set, &expired) == 0;
        CHECK(softtimers_now() - start < PATIENCE_NS);
        CHECK(getitimer(ITIMER_REAL, &left) == 0 && left.it_interval.tv_sec == 0 && left.it_interval.tv_usec == 0);
        CHECK(left.it_value.tv_sec == 0 && left.it_value.tv_usec <= 30000);
        if (left.it_value.tv_usec == 0 && of_kernel == 0) {
            set_at = softtimers_now();
            CHECK(setitimer(ITIMER_REAL, &real, NULL) == 0);
        }
    }
    CHECK(softtimers_now() - set_at >= 30 * MS && of_kernel == 1);
    CHECK(softtimers_itimer_cancel(set, handle, NULL) == 0);
    CHECK(getitimer(ITIMER_REAL, &left) == 0 && left.it_value.tv_sec == 0 && left.it_value.tv_usec == 0);
}

/* That the kernel does so: the signal of a set is never lost, whichever comes first, ITIMER_REAL's is if it comes second. */
static void merged(softtimers_itimers *set, int set_first) {
    struct itimerval real = {{0, 0}, {0, 1}}, left;
    softtimers_expired expired;
    sigset_t alarm, pending;
    uint64_t handle, start = softtimers_now();
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    CHECK(sigprocmask(SIG_BLOCK, &alarm, NULL) == 0);
    of_timer = of_kernel = 0;
    if (!set_first) {
        CHECK(setitimer(ITIMER_REAL, &real, NULL) == 0);
    }
    do {
        CHECK(getitimer(ITIMER_REAL, &left) == 0 && softtimers_now() - start < PATIENCE_NS);
    } while (left.it_value.tv_usec != 0);
    CHECK(softtimers_itimer_create(set, MS, 0, 1, &handle) == 0);
    /* Its signal waits, and nothing has looked. */
    do {
        (void)poll(NULL, 0, 2);
        CHECK(sigpending(&pending) == 0 && softtimers_now() - start < PATIENCE_NS);
    } while (!sigismember(&pending, SIGALRM));
    if (set_first) {
        CHECK(setitimer(ITIMER_REAL, &real, NULL) == 0);
    }
    do {
        (void)poll(NULL, 0, 2);
        CHECK(getitimer(ITIMER_REAL, &left) == 0 && softtimers_now() - start < PATIENCE_NS);
    } while (left.it_value.tv_usec != 0);
    CHECK(sigprocmask(SIG_UNBLOCK, &alarm, NULL) == 0 && of_kernel == !set_first);
    while (of_timer == 0) {
        (void)poll(NULL, 0, 2);
        CHECK(softtimers_now() - start < PATIENCE_NS);
    }
    CHECK(softtimers_itimer_reap(set, &expired) == 0 && softtimers_itimers_len(set) == 0);
}

/* Another process's handles mean nothing to a set made there. */
static void another_process(softtimers_itimers *set) {
    uint64_t handle;
    int status;
    pid_t child;
    CHECK(softtimers_itimer_create(set, 3600000 * MS, 0, 1, &handle) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        softtimers_itimers *own;
        uint64_t mine;
        if (softtimers_itimers_new(10, &own) != 0 || softtimers_itimer_create(own, 3600000 * MS, 0, 1, &mine) != 0) {
            _exit(2);
        }
        _exit(softtimers_itimer_cancel(own, handle, NULL) == -EINVAL && softtimers_itimers_len(own) == 1 ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(softtimers_itimer_cancel(set, handle, NULL) == 0);
}

int main(void) {
    softtimers_itimers *by_descriptor, *by_signal;
    softtimers_expired expired;
    struct sigaction action;
    struct pollfd readable;
    uint64_t handle;
    callout();
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_alarm;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);

    CHECK(softtimers_itimers_new(0, NULL) == -EINVAL && softtimers_itimers_new(UINT32_MAX, &by_descriptor) == -EINVAL);
    CHECK(softtimers_itimers_new_signal(0, 0, &by_signal) == -EINVAL);
    CHECK(softtimers_itimers_new_signal(0, SIGKILL, &by_signal) == -EINVAL);
    CHECK(softtimers_itimers_new(0, &by_descriptor) == 0 && softtimers_itimers_new_signal(1000, SIGALRM, &by_signal) == 0);
    CHECK(softtimers_itimers_fd(by_signal) == -EINVAL && softtimers_itimers_fd(by_descriptor) >= 0);
    figures(by_descriptor);
    figures(by_signal);
    periods(by_descriptor);
    periods(by_signal);
    refusals(by_descriptor, by_signal);
    refusals(by_signal, by_descriptor);
    coalesced(by_signal);
    real_timer(by_signal);
    merged(by_signal, 1);
    merged(by_signal, 0);
    another_process(by_descriptor);

    CHECK(softtimers_itimer_create(by_descriptor, MS, 0, 5, &handle) == 0);
    readable.fd = softtimers_itimers_fd(by_descriptor);
    readable.events = POLLIN;
    CHECK(poll(&readable, 1, 30000) == 1 && softtimers_itimer_reap(by_descriptor, &expired) == 0 && expired.label == 5);
    CHECK(poll(&readable, 1, 0) == 0);
    CHECK(softtimers_itimer_create(by_signal, 1000 * MS, MS, 5, &handle) == 0);
    CHECK(softtimers_itimers_free(by_descriptor) == 0 && softtimers_itimers_free(by_signal) == 0);
    puts("ok");
    return 0;
}
