/* William Ahern's timeout.c, from the directory that SOFTTIMERS_TIMEOUT names. */
#include "timeout.c"
#include <stdlib.h>

struct timer {
  struct timeout timeout;
  uint32_t number;
  struct timer *free;
};

struct set {
  struct timeouts *wheel;
  uint64_t now;
  struct timer *free;
};

#include "pool.h"

static void *new(void) {
  struct set *set = calloc(1, sizeof *set);
  int error;
  set->wheel = timeouts_open(TIMEOUT_uHZ, &error);
  return set->wheel ? set : NULL;
}

static void *set(struct set *set, uint64_t due, uint32_t number) {
  struct timer *timer = take(set);
  timer->number = number;
  timeout_init(&timer->timeout, TIMEOUT_ABS);
  timeouts_add(set->wheel, &timer->timeout, due);
  return timer;
}

static void cancel(struct set *set, struct timer *timer) {
  timeouts_del(set->wheel, &timer->timeout);
  give_back(set, timer);
}

static void rearm(struct set *set, struct timer *timer, uint64_t due) {
  timeouts_add(set->wheel, &timer->timeout, due);
}

static size_t advance(struct set *set, uint64_t now, uint32_t *fired, size_t room) {
  if (now != set->now) {
    timeouts_update(set->wheel, now);
    set->now = now;
  }
  size_t count = 0;
  struct timeout *expired;
  while (count < room && (expired = timeouts_get(set->wheel))) {
    struct timer *timer = (struct timer *)expired;
    fired[count++] = timer->number;
    give_back(set, timer);
  }
  return count;
}

static uint64_t next(struct set *set) {
  timeout_t left = timeouts_timeout(set->wheel);
  return left == ~TIMEOUT_C(0) ? UINT64_MAX : set->now + left;
}

/* As foreign.rs reads them. */
void *const calls[] = {new, set, cancel, rearm, advance, next};
