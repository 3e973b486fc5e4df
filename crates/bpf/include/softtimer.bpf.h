/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * softtimer.bpf.h: soft timers for BPF programs, on an unmodified kernel.
 *
 * A bpf_timer is a hardware timer: each expiry is an interrupt, and costs what a thousand clock checks
 * cost. This header fires events at the points that a kernel passes anyway (Aron and Druschel's trigger states:
 * the end of a system call, of a soft interrupt, ...), or wherever a program of yours calls st_poll(). One
 * bpf_timer for each CPU is the backup, and goes off only if an event's deadline comes first.
 *
 *      tracepoint, or your program                            per CPU
 *      ──────────────────────────▶ st_trigger ──▶ now >= gate ? ──no──▶ return (one map value, one clock read)
 *                                                    │ yes
 *                                                    ▼
 *                              wheel of 256 slots, 4.096 us each ──▶ st_fire(event), yours
 *                                                    ▲
 *      bpf_timer, at the earliest deadline ──────────┘
 *
 * How to use it. Compile with clang -O2 -g -target bpf -mcpu=v3, which has the compare-and-swap. Before this file:
 * vmlinux.h and bpf_helpers.h (or kernel.bpf.h beside this file). After it:
 *
 *      static __always_inline void st_fire(struct st_cpu *c, u32 id, struct st_event *e, u64 now, u32 source)
 *      {
 *              flush(e->a);                              // what the event is for
 *              st_again(c, id, now + 100000, 1000000);   // 100 us from now; at most 1 ms later
 *      }
 *      ST_ATTACH_DEFAULT                                 // cheap trigger states; ST_ATTACH(name) for each that you like
 *      ST_INIT(sys_enter)                                // sets each CPU up, in a context that may allocate
 *
 * and then, from any program of yours: st_schedule(id, st_now() + 100000, 1000000, ST_ANYWHERE).
 *
 * What holds. An event is never fired before its due time, fires once for each time it was scheduled unless it is
 * cancelled, and by due + slack once the backup's interrupt is served. Events are in order of their ticks of
 * 4.096 us; within a tick, in the order they were scheduled; not so those that were held where they may not fire, nor
 * after a CPU has passed no trigger state for a round of the wheel, 1 ms. A visit takes at most ST_STEPS steps; what is left
 * is taken at the next trigger state, or by the backup.
 *
 * Where programs nest. A trigger state may interrupt another on the same CPU (task, soft interrupt, interrupt),
 * and since Linux 7.0 another task may run in between. The wheel is guarded by a flag per CPU, taken by
 * compare-and-swap; who finds it taken goes away (st_trigger) or is told -EBUSY (st_schedule, st_cancel). A
 * backup that finds it taken leaves a note, and who holds the wheel starts it again on the way out.
 *
 * Events belong to the CPU that scheduled them. Needs Linux 6.7 (pinned bpf_timers), CAP_BPF and CAP_PERFMON.
 * Keep the slack at 1 ms or more unless you mean it: below 200 us the backup fires most events, and each is an
 * interrupt.
 */
#ifndef SOFTTIMER_BPF_H
#define SOFTTIMER_BPF_H

#include "sources.bpf.h"

/* Events of a CPU are 1 .. ST_EVENTS - 1; a power of two, at most 256. */
#ifndef ST_EVENTS
#define ST_EVENTS 64
#endif
/* CPUs: a loader may set it to their number (max_entries of st_cpus and st_backups). */
#ifndef ST_MAX_CPUS
#define ST_MAX_CPUS 64
#endif
/* Events and slots that one visit looks at. The verifier follows each step, so keep it small. */
#ifndef ST_STEPS
#define ST_STEPS 8
#endif
/* Where another program may come in between: a test makes it come. */
#ifndef ST_INTERRUPTIBLE
#define ST_INTERRUPTIBLE() barrier()
#endif

/* What happened to an event, while the wheel is held: for a trace of yours, or a test. */
#ifndef ST_OBSERVE
#define ST_OBSERVE(what, id) ((void)0)
#endif
enum { ST_ADDED, ST_FIRED, ST_REMOVED };

#define ST_WORDS ((ST_EVENTS + 63) / 64)
#define ST_TICK_SHIFT 12
#define ST_SLOTS 256
#define ST_HELD ST_SLOTS /* the list of events that are due, but not allowed where they were found */
#define ST_NEVER (~0ULL)
#define ST_ANYWHERE (~0U)

#define ST_EBUSY (-16)
#define ST_EINVAL (-22)
#define ST_ENOENT (-2)

#define ST_IN(source) (1U << ST_SRC_##source)

struct st_event {
	u64 due;      /* not before, ns of CLOCK_MONOTONIC */
	u64 deadline; /* the backup fires it then; ST_NEVER: it waits for a trigger state */
	u64 a, b;     /* yours */
	u32 contexts; /* where it may fire */
	u16 next, prev;
	u16 list; /* slot, or ST_HELD */
	u16 pad[3];
};

struct st_stats {
	u64 visits;   /* the gate was open */
	u64 nested;   /* it was, and somebody else had the wheel */
	u64 backups;  /* the bpf_timer went off */
	u64 rearms;   /* it was set */
	u64 late_sum; /* ns after the due time, of all that fired */
	u64 late_max;
	u64 held; /* due where they were not allowed to fire */
	u64 expired; /* fired at their deadline or after it, whoever fired them: the backup's interrupt is a trigger state, too */
	u64 fired[ST_SOURCES];
};

struct st_cpu {
	u64 gate;          /* no event is due before this */
	u32 held_contexts; /* where an event of the held list may fire */
	u32 busy;          /* the wheel is taken */
	u64 tick;          /* slots before this have been walked */
	u64 earliest;      /* due time in the slot that is walked, of what was passed */
	u64 armed;         /* when the backup goes off */
	u32 cursor;        /* next event of that slot; 0: from its head */
	u32 missed;        /* the backup went off while the wheel was taken */
	u32 holds;         /* events in the held list */
	u32 sweep;         /* of these still to be looked at until the mask is known anew */
	u32 held_seen;     /* the mask so far */
	u32 up;            /* initialised */
	u32 walking;       /* in the slot of `tick`: what is added to it is still met */
	u64 occupied[ST_SLOTS / 64];
	struct st_stats stats;
	u16 head[ST_SLOTS + 1], tail[ST_SLOTS + 1];
	u16 pad[2];
	u64 linked[ST_WORDS]; /* the events that are scheduled, a bit each */
	struct st_event events[ST_EVENTS];
} __attribute__((aligned(64)));

struct st_backup {
	struct bpf_timer timer;
};

/* A bpf_timer may not live in a per-CPU map, so both are arrays with the CPU as the key. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ST_MAX_CPUS);
	__type(key, u32);
	__type(value, struct st_cpu);
} st_cpus SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ST_MAX_CPUS);
	__type(key, u32);
	__type(value, struct st_backup);
} st_backups SEC(".maps");

/* Yours. The wheel is held: use st_again, st_add and st_del in it, not st_schedule and st_cancel. */
static __always_inline void st_fire(struct st_cpu *c, u32 id, struct st_event *e, u64 now, u32 source);

/* The lowest bit that is set; there is one. By halves: BPF has no instruction for it. */
static __always_inline u32 st_lowest(u64 bits)
{
	u32 at = 0;
	if (!(bits & 0xffffffff)) { at += 32; bits >>= 32; }
	if (!(bits & 0xffff)) { at += 16; bits >>= 16; }
	if (!(bits & 0xff)) { at += 8; bits >>= 8; }
	if (!(bits & 0xf)) { at += 4; bits >>= 4; }
	if (!(bits & 0x3)) { at += 2; bits >>= 2; }
	return at + !(bits & 1);
}

static __always_inline u64 st_now(void)
{
	return bpf_ktime_get_ns();
}

static __always_inline struct st_cpu *st_this_cpu(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&st_cpus, &cpu);
}

/* barrier_var: clang must not drop the mask that shows the verifier the bound. */
static __always_inline struct st_event *st_at(struct st_cpu *c, u32 id)
{
	barrier_var(id);
	return &c->events[id & (ST_EVENTS - 1)];
}

/* The word with the bit of this event. */
static __always_inline u64 *st_word(struct st_cpu *c, u32 id)
{
	u32 word = id >> 6;
	barrier_var(word);
	return &c->linked[word & (ST_WORDS - 1)];
}

static __always_inline int st_linked(struct st_cpu *c, u32 id)
{
	return *st_word(c, id) >> (id & 63) & 1;
}

static __always_inline u32 st_list(u32 list)
{
	barrier_var(list);
	return list > ST_HELD ? ST_HELD : list;
}

static __always_inline void st_start_backup(u64 at)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct st_backup *b = bpf_map_lookup_elem(&st_backups, &cpu);
	if (b)
		bpf_timer_start(&b->timer, at, 1 /* absolute */ | 2 /* pinned to this CPU */);
}

static __always_inline int st_take(struct st_cpu *c)
{
	ST_INTERRUPTIBLE();
	int taken = __sync_val_compare_and_swap(&c->busy, 0, 1) == 0;
	ST_INTERRUPTIBLE();
	return taken;
}

static __always_inline void st_give(struct st_cpu *c)
{
	ST_INTERRUPTIBLE();
	*(volatile u32 *)&c->busy = 0;
	ST_INTERRUPTIBLE();
	/* The flag is down first: a backup from here on takes the wheel itself. */
	if (*(volatile u32 *)&c->missed) {
		c->missed = 0;
		st_start_backup(st_now());
	}
}

/* Slots from that of `tick` to the next that is occupied; ST_SLOTS: there is none. Global functions are verified
 * once; inlined into a dozen programs they would take the verifier minutes. */
__noinline u32 st_next_slot(struct st_cpu *c, u64 tick)
{
	if (!c)
		return ST_SLOTS;
	u32 slot = tick & (ST_SLOTS - 1);
	/* The first word once more at the end, for its bits below the slot: those above are known to be clear. */
	for (int k = 0; k <= ST_SLOTS / 64; k++) {
		u32 word = ((slot >> 6) + k) & (ST_SLOTS / 64 - 1);
		u64 bits = c->occupied[word];
		if (k == 0)
			bits &= ~0ULL << (slot & 63);
		if (bits)
			return ((word << 6) + st_lowest(bits) - slot) & (ST_SLOTS - 1);
	}
	return ST_SLOTS;
}

__noinline int st_unlink(struct st_cpu *c, u32 id)
{
	if (!c)
		return 0;
	struct st_event *e = st_at(c, id);
	u32 list = st_list(e->list), next = e->next, prev = e->prev;
	if (next)
		st_at(c, next)->prev = prev;
	else
		c->tail[list] = prev;
	if (prev)
		st_at(c, prev)->next = next;
	else
		c->head[list] = next;
	if (list < ST_SLOTS) {
		if (!next && !prev)
			c->occupied[(list >> 6) & (ST_SLOTS / 64 - 1)] &= ~(1ULL << (list & 63));
		if (c->cursor == id)
			c->cursor = next;
	} else {
		c->holds--;
		if (!c->head[ST_HELD])
			c->held_contexts = c->held_seen = c->sweep = 0;
	}
	*st_word(c, id) &= ~(1ULL << (id & 63));
	return 0;
}

__noinline int st_append(struct st_cpu *c, u32 id, u32 to)
{
	if (!c)
		return 0;
	struct st_event *e = st_at(c, id);
	u32 list = st_list(to), last = c->tail[list];
	e->list = list;
	e->next = 0;
	e->prev = last;
	*st_word(c, id) |= 1ULL << (id & 63);
	if (last)
		st_at(c, last)->next = id;
	else
		c->head[list] = id;
	c->tail[list] = id;
	if (list < ST_SLOTS) {
		c->occupied[(list >> 6) & (ST_SLOTS / 64 - 1)] |= 1ULL << (list & 63);
		if (c->walking && !c->cursor && list == (c->tick & (ST_SLOTS - 1)))
			c->cursor = id;
	} else {
		c->holds++;
		c->held_contexts |= e->contexts;
		c->held_seen |= e->contexts;
	}
	return 0;
}

/* Schedules or moves an event. The wheel is held. The backup is set only if this deadline comes before the one it
 * is set for; it is never postponed here: its callback finds out what it is needed for next. */
__noinline int st_add(struct st_cpu *c, u32 id, u64 due, u64 slack)
{
	if (!c || id == 0 || id >= ST_EVENTS)
		return ST_EINVAL;
	struct st_event *e = st_at(c, id);
	if (st_linked(c, id))
		st_unlink(c, id);
	if (!e->contexts)
		e->contexts = ST_ANYWHERE;
	e->due = due;
	e->deadline = due + slack < due ? ST_NEVER : due + slack;
	u64 tick = due >> ST_TICK_SHIFT;
	if (tick < c->tick)
		tick = c->tick; /* or it would wait for the wheel to come round */
	st_append(c, id, tick & (ST_SLOTS - 1));
	if (due < c->gate)
		c->gate = due;
	if (e->deadline < c->armed && (e->contexts >> ST_SRC_backup & 1)) {
		c->armed = e->deadline;
		c->stats.rearms++;
		st_start_backup(e->deadline);
	}
	ST_OBSERVE(ST_ADDED, id);
	return 0;
}

/* From st_fire: once more. A due time that has passed is postponed by a nanosecond, so that a visit ends. */
static __always_inline int st_again(struct st_cpu *c, u32 id, u64 due, u64 slack)
{
	u64 now = st_now();
	return st_add(c, id, due > now ? due : now + 1, slack);
}

/* From st_fire: not any more. */
static __always_inline int st_del(struct st_cpu *c, u32 id)
{
	if (id == 0 || id >= ST_EVENTS || !st_linked(c, id))
		return ST_ENOENT;
	ST_OBSERVE(ST_REMOVED, id);
	return st_unlink(c, id);
}

static __always_inline int st_fire_one(struct st_cpu *c, u32 id, u64 now, u32 source)
{
	struct st_event *e = st_at(c, id);
	/* An interrupt after the clock was read may have found it due, and left it in the held list. */
	u64 late = now > e->due ? now - e->due : 0;
	c->stats.fired[source & (ST_SOURCES - 1)]++;
	c->stats.late_sum += late;
	if (late > c->stats.late_max)
		c->stats.late_max = late;
	c->stats.expired += now >= e->deadline;
	st_unlink(c, id);
	ST_OBSERVE(ST_FIRED, id);
	st_fire(c, id, e, now, source);
	return 0;
}

/* Held events that may fire here. Those that may not go to the end, so all get their turn; when all had it, the
 * mask says what is left. */
__noinline int st_run_held(struct st_cpu *c, u64 now, u32 source)
{
	if (!c)
		return 0;
	if (!c->sweep) {
		c->sweep = c->holds;
		c->held_seen = 0;
	}
	for (u32 i = 0; i < ST_STEPS; i++) {
		u32 id = c->head[ST_HELD];
		if (!id || !c->sweep)
			break;
		c->sweep--;
		if (st_at(c, id)->contexts >> (source & 31) & 1) {
			st_fire_one(c, id, now, source);
		} else {
			st_unlink(c, id);
			st_append(c, id, ST_HELD);
		}
	}
	if (!c->sweep)
		c->held_contexts = c->held_seen;
	return 0;
}

/* The wheel is held, and something may be due. */
__noinline int st_run(struct st_cpu *c, u64 now, u32 source)
{
	if (!c)
		return 0;
	u64 last = now >> ST_TICK_SHIFT;
	if (last < c->tick)
		last = c->tick; /* an interrupt that came in between has been here later */
	if (last - c->tick >= ST_SLOTS) {
		/* Away for a round or more: once through all slots. */
		c->tick = last - (ST_SLOTS - 1);
		c->cursor = c->walking = 0;
	} else if (c->earliest <= now) {
		c->cursor = c->walking = 0; /* what was passed over has become due while the walk rested */
	}
	u32 id = c->cursor;
	c->gate = 0;
	for (int i = 0; i < ST_STEPS; i++) {
		if (!id) {
			u32 ahead = st_next_slot(c, c->tick);
			if (ahead >= ST_SLOTS || c->tick + ahead > last) {
				c->gate = ahead >= ST_SLOTS ? ST_NEVER : (c->tick + ahead) << ST_TICK_SHIFT;
				c->tick = last;
				c->cursor = 0;
				return 0;
			}
			c->tick += ahead;
			c->earliest = ST_NEVER;
			c->walking = 1;
			id = c->head[c->tick & (ST_SLOTS - 1)];
		}
		struct st_event *e = st_at(c, id);
		c->cursor = e->next;
		if (e->due <= now) {
			if (e->contexts >> (source & 31) & 1) {
				st_fire_one(c, id, now, source);
			} else {
				c->stats.held++;
				st_unlink(c, id);
				st_append(c, id, ST_HELD);
			}
		} else if (e->due >> ST_TICK_SHIFT <= c->tick && e->due < c->earliest) {
			c->earliest = e->due;
		}
		id = c->cursor;
		if (id)
			continue;
		c->walking = 0;
		if (c->tick < last) {
			c->tick++;
		} else {
			/* What is left of this slot is for later, in this tick or in another round. */
			u32 ahead = st_next_slot(c, c->tick + 1);
			u64 next = ahead >= ST_SLOTS ? ST_NEVER : (c->tick + 1 + ahead) << ST_TICK_SHIFT;
			c->gate = c->earliest < next ? c->earliest : next;
			return 0;
		}
	}
	return 0;
}

/* A trigger state. Returns 1 if it looked at the wheel. */
static __always_inline int st_visit(struct st_cpu *c, u32 source)
{
	u64 now = st_now();
	if (now < c->gate && !(c->held_contexts >> source & 1))
		return 0;
	if (!st_take(c)) {
		c->stats.nested++;
		return 0;
	}
	c->stats.visits++;
	if (c->held_contexts >> source & 1)
		st_run_held(c, now, source);
	if (now >= c->gate)
		st_run(c, now, source);
	st_give(c);
	return 1;
}

static __always_inline int st_trigger(u32 source)
{
	struct st_cpu *c = st_this_cpu();
	return c ? st_visit(c, source) : 0;
}

/* From a hot program of yours, where it likes. */
static __always_inline int st_poll(void)
{
	return st_trigger(ST_SRC_poll);
}

/* Schedules event `id` of this CPU, or moves it: due at `due` at the earliest, and at due + slack the backup
 * fires it if nobody else did. ST_NEVER as slack: no backup. `contexts` says where it may fire: ST_ANYWHERE, or
 * ST_IN(softirq_exit) | ...; without ST_IN(backup) nothing bounds its lateness. 0, ST_EINVAL or ST_EBUSY. */
static __always_inline int st_schedule(u32 id, u64 due, u64 slack, u32 contexts)
{
	struct st_cpu *c = st_this_cpu();
	if (!c || !c->up || id == 0 || id >= ST_EVENTS || !contexts)
		return ST_EINVAL;
	if (!st_take(c))
		return ST_EBUSY;
	st_at(c, id)->contexts = contexts;
	int said = st_add(c, id, due, slack);
	st_give(c);
	return said;
}

/* Cancels event `id` of this CPU. 0, ST_ENOENT if it was not scheduled, ST_EINVAL or ST_EBUSY. */
static __always_inline int st_cancel(u32 id)
{
	struct st_cpu *c = st_this_cpu();
	if (!c || id == 0 || id >= ST_EVENTS)
		return ST_EINVAL;
	if (!st_take(c))
		return ST_EBUSY;
	int said = st_del(c, id);
	st_give(c);
	return said;
}

/* A function of its own, or the verifier would follow its paths once more for each event. */
__noinline u32 st_lowest_of(u64 bits)
{
	return st_lowest(bits);
}

/* The deadline of whatever is scheduled and may fire in the backup: as many steps as events are scheduled. */
__noinline u64 st_first_deadline(struct st_cpu *c)
{
	u64 first = ST_NEVER;
	if (!c)
		return first;
	for (u32 word = 0; word < ST_WORDS; word++) {
		u64 bits = c->linked[word];
		for (u32 i = 0; i < 64 && bits; i++) {
			struct st_event *e = st_at(c, (word << 6) + st_lowest_of(bits));
			bits &= bits - 1;
			if ((e->contexts >> ST_SRC_backup & 1) && e->deadline < first)
				first = e->deadline;
		}
	}
	return first;
}

static int st_backup_fired(void *map, u32 *key, struct st_backup *b)
{
	u32 cpu = *key;
	struct st_cpu *c = bpf_map_lookup_elem(&st_cpus, &cpu);
	if (!c)
		return 0;
	if (!st_take(c)) {
		*(volatile u32 *)&c->missed = 1;
		return 0;
	}
	c->stats.backups++;
	c->armed = 0; /* what is scheduled meanwhile need not set it */
	u64 now = st_now();
	if (c->held_contexts >> ST_SRC_backup & 1)
		st_run_held(c, now, ST_SRC_backup);
	if (now >= c->gate)
		st_run(c, now, ST_SRC_backup);
	c->armed = st_first_deadline(c);
	if (c->armed != ST_NEVER) {
		c->stats.rearms++;
		bpf_timer_start(&b->timer, c->armed, 1 | 2);
	}
	st_give(c);
	return 0;
}

/* Sets this CPU up, once. bpf_timer_init allocates, so from a context that may: see ST_INIT. */
static __always_inline int st_init(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct st_cpu *c = bpf_map_lookup_elem(&st_cpus, &cpu);
	struct st_backup *b = bpf_map_lookup_elem(&st_backups, &cpu);
	if (!b || !c)
		return ST_EINVAL;
	if (c->up || !st_take(c))
		return 0;
	c->tick = st_now() >> ST_TICK_SHIFT;
	c->gate = ST_NEVER;
	c->armed = ST_NEVER;
	c->earliest = ST_NEVER;
	int failed = bpf_timer_init(&b->timer, &st_backups, 1 /* CLOCK_MONOTONIC */);
	if (!failed)
		failed = bpf_timer_set_callback(&b->timer, st_backup_fired);
	if (!failed)
		c->up = 1;
	st_give(c);
	return failed;
}

/* A program at this tracepoint, named st_at_NAME, that is a trigger state. */
#define ST_ATTACH(name)                           \
	SEC("tp_btf/" #name)                      \
	int st_at_##name(u64 *ctx)                \
	{                                         \
		st_trigger(ST_SRC_##name);        \
		return 0;                         \
	}

/* Trigger states that are cheap: none of them is met at every system call. What most programs need. The tracepoint of the
 * clock's interrupt is x86's alone, and an object with a program at one that the kernel lacks does not load: it is among them
 * with -D__TARGET_ARCH_x86, libbpf's name for that. */
#ifdef __TARGET_ARCH_x86
#define ST_ATTACH_DEFAULT          \
	ST_ATTACH(softirq_exit)    \
	ST_ATTACH(sched_switch)    \
	ST_ATTACH(local_timer_exit)
#else
#define ST_ATTACH_DEFAULT          \
	ST_ATTACH(softirq_exit)    \
	ST_ATTACH(sched_switch)
#endif

/* A program at this tracepoint, named st_init_cpu, that sets CPUs up. To be detached when all are. */
#define ST_INIT(name)                             \
	SEC("tp_btf/" #name)                      \
	int st_init_cpu(u64 *ctx)                 \
	{                                         \
		st_init();                        \
		return 0;                         \
	}

#endif
