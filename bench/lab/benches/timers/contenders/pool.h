/* Timers that are used again, as the other contenders keep them: no call of malloc for each. */
static struct timer *take(struct set *set) {
  if (!set->free) {
    enum { AT_ONCE = 1024 };
    struct timer *more = malloc(AT_ONCE * sizeof *more);
    if (!more) abort();
    for (size_t at = AT_ONCE; at-- > 0;) {
      more[at].free = set->free;
      set->free = &more[at];
    }
  }
  struct timer *timer = set->free;
  set->free = timer->free;
  return timer;
}

static void give_back(struct set *set, struct timer *timer) {
  timer->free = set->free;
  set->free = timer;
}
