/* libuv's heap of timers, ordered as its src/timer.c does: by time, and among equal ones by when they were started.
   What is included is libuv's own, from the directory that SOFTTIMERS_LIBUV names. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "heap-inl.h"

struct timer {
  struct heap_node node;
  uint64_t due, order;
  uint32_t number;
  struct timer *free;
};

struct set {
  struct heap heap;
  uint64_t order;
  struct timer *free;
};

static int less(const struct heap_node *a, const struct heap_node *b) {
  const struct timer *one = (const struct timer *)a, *other = (const struct timer *)b;
  return one->due < other->due || (one->due == other->due && one->order < other->order);
}

#include "pool.h"

static void *new(void) {
  struct set *set = calloc(1, sizeof *set);
  heap_init(&set->heap);
  return set;
}

static void insert(struct set *set, struct timer *timer, uint64_t due) {
  timer->due = due;
  timer->order = set->order++;
  heap_insert(&set->heap, &timer->node, less);
}

static void *set(struct set *set, uint64_t due, uint32_t number) {
  struct timer *timer = take(set);
  timer->number = number;
  insert(set, timer, due);
  return timer;
}

static void cancel(struct set *set, struct timer *timer) {
  heap_remove(&set->heap, &timer->node, less);
  give_back(set, timer);
}

static void rearm(struct set *set, struct timer *timer, uint64_t due) {
  heap_remove(&set->heap, &timer->node, less);
  insert(set, timer, due);
}

static size_t advance(struct set *set, uint64_t now, uint32_t *fired, size_t room) {
  size_t count = 0;
  struct heap_node *least;
  while (count < room && (least = heap_min(&set->heap)) && ((struct timer *)least)->due <= now) {
    struct timer *timer = (struct timer *)least;
    cancel(set, timer);
    fired[count++] = timer->number;
  }
  return count;
}

static uint64_t next(struct set *set) {
  struct heap_node *least = heap_min(&set->heap);
  return least ? ((struct timer *)least)->due : UINT64_MAX;
}

/* As foreign.rs reads them. */
void *const calls[] = {new, set, cancel, rearm, advance, next};
