/* softtimer.bpf.h against a model, in virtual time, with everything that can come in between coming in between.
 *
 *   tasks      three of them schedule, cancel and pass trigger states; at each interruptible point another may go on,
 *              also while the wheel is held (preemptible programs, Linux 7.0), or
 *   interrupts come, and interrupts into those: trigger states, schedulings, and the backup when it is due.
 *
 * Whenever nothing is half done, the model is compared: nothing fired early, twice, or where it may not; nothing
 * is lost; no deadline has passed; a trigger state leaves nothing that was due; and what was counted is what the model
 * counted. Of each event that fires, that none came before it in the order that softtimer.bpf.h promises.
 * usage: model STEPS SEED */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "mocks.h"

static void come_between(void);
#define ST_INTERRUPTIBLE() come_between()
static void observe(int what, u32 id);
#define ST_OBSERVE(what, id) observe(what, id)
#include "softtimer.bpf.h"

static struct st_cpu cpu;
static struct st_backup backup;

static void *mock_lookup(void *map, const u32 *key)
{
	(void)key;
	return map == (void *)&st_cpus ? (void *)&cpu : (void *)&backup;
}

static struct {
	bool on;
	u64 due, deadline;
	u32 contexts;
	u64 tick;  /* where it is in order: that of its due time, or the one that was walked when it was scheduled late */
	u64 place; /* within the tick: how many were scheduled before it */
} model[ST_EVENTS];

/* What is to be counted. */
static struct st_stats counted;

static u64 fired, by_backup, refused, cancelled, moved, between, switched;
static u64 random_state, places, walked, latest, same_tick, expected_source = ST_SOURCES;

static u64 any(u64 below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

static void fail(const char *what, u32 id)
{
	fprintf(stderr, "%s: event %u, now %llu, due %llu, deadline %llu, contexts %x, gate %llu, armed %llu\n", what, id,
		mock_now, model[id].due, model[id].deadline, model[id].contexts, cpu.gate, cpu.armed);
	exit(1);
}

static void observe(int what, u32 id)
{
	struct st_event *e = &cpu.events[id];
	switch (what) {
	case ST_ADDED:
		if (e->deadline < e->due)
			fail("its deadline comes before it is due", id);
		moved += model[id].on;
		model[id].on = true;
		model[id].due = e->due;
		model[id].deadline = e->deadline;
		model[id].contexts = e->contexts;
		model[id].tick = e->due >> ST_TICK_SHIFT;
		if (model[id].tick < cpu.tick)
			model[id].tick = cpu.tick;
		model[id].place = places++;
		break;
	case ST_FIRED:
		if (!model[id].on)
			fail("fired although it was not scheduled", id);
		if (mock_now < model[id].due)
			fail("fired early", id);
		model[id].on = false;
		fired++;
		break;
	case ST_REMOVED:
		if (!model[id].on)
			fail("cancelled although it was not scheduled", id);
		model[id].on = false;
		cancelled++;
	}
}

static u64 some_delay(void)
{
	switch (any(5)) {
	case 0: return any(3);
	case 1: return any(4096 * 2);
	case 2: return any(300000);
	case 3: return any(6000000);
	default: return 4096 * 256 * any(4) + any(40000);
	}
}

static u64 some_slack(void)
{
	return any(20) == 0 ? ST_NEVER : any(4) == 0 ? any(1000) : any(400000);
}

static u32 some_contexts(void)
{
	return any(3) ? ST_ANYWHERE : any(2) ? (u32)any(1 << ST_SOURCES) | 1 << any(10) : ST_IN(softirq_exit);
}

/* What was due at this clock check, and waits in the wheel: those held where they may not fire are in no order, nor those
 * that a round of the wheel has gone over, at this look or at a later one that came in between. */
static void check_order(u32 id, u64 now)
{
	for (u32 other = 1; other < ST_EVENTS; other++) {
		if (!model[other].on || cpu.events[other].list == ST_HELD || model[other].due > now)
			continue;
		if (model[other].tick == model[id].tick) {
			same_tick++;
			if (model[other].place < model[id].place)
				fail("fired before one of its tick that was scheduled earlier", id);
		} else if (model[other].tick < model[id].tick && model[other].tick + ST_SLOTS > latest >> ST_TICK_SHIFT) {
			fail("fired before one of an earlier tick", id);
		}
	}
}

static void count(u32 id, u64 now, u32 source)
{
	u64 late = now > model[id].due ? now - model[id].due : 0;
	counted.fired[source]++;
	counted.late_sum += late;
	if (late > counted.late_max)
		counted.late_max = late;
	counted.expired += now >= model[id].deadline;
}

static void st_fire(struct st_cpu *c, u32 id, struct st_event *e, u64 now, u32 source)
{
	if (!(e->contexts >> source & 1))
		fail("fired where it may not", id);
	if (expected_source < ST_SOURCES && source != expected_source)
		fail("fired by another source than the one that was met", id);
	if (e->list != ST_HELD)
		check_order(id, now);
	count(id, now, source);
	by_backup += source == ST_SRC_backup;
	come_between();
	if (any(4)) {
		u64 called = mock_now;
		st_again(c, id, any(3) ? e->due + some_delay() : now, some_slack());
		if (e->due <= called)
			fail("due once more before the handler returned", id);
	}
	if (any(8) == 0)
		st_del(c, 1 + any(ST_EVENTS - 1));
	if (any(8) == 0)
		st_add(c, 1 + any(ST_EVENTS - 1), now + some_delay() - any(2) * any(10000), some_slack());
}

static void some_operation(void)
{
	u32 id = 1 + any(ST_EVENTS - 1);
	switch (any(8)) {
	case 0: refused += st_schedule(id, mock_now + some_delay(), some_slack(), some_contexts()) == ST_EBUSY; break;
	case 1: refused += st_cancel(id) == ST_EBUSY; break;
	case 2: st_poll(); break;
	default: st_trigger(any(10));
	}
}

/* ---- what comes between ---- */

#define TASKS 3
static ucontext_t tasks[TASKS], scheduler;
static int running = -1; /* the task; -1: the scheduler itself */
static bool half_done[TASKS];
static int depth; /* of interrupts */

static void serve_backup(void)
{
	u32 key = 0;
	if (backup.timer.armed && backup.timer.at <= mock_now) {
		backup.timer.armed = false;
		u64 before = mock_started;
		st_backup_fired(&st_backups, &key, &backup);
		/* Where nothing comes between, nobody else sets it. */
		if (depth == 3 && mock_started > before + 1)
			fail("the backup was set more than once before its function returned", 0);
	}
}

static void come_between(void)
{
	u64 what = any(40);
	mock_now += any(3) * any(60);
	if (latest < mock_now)
		latest = mock_now;
	/* Slots before it have been walked, and are not walked again. */
	if (cpu.tick < walked)
		fail("the wheel turned back", 0);
	walked = cpu.tick;
	if (what < 3 && depth < 3) {
		between++;
		depth++;
		mock_now += any(8) ? 0 : any(20000); /* of more than a tick, so that a look at the clock is an old one */
		if (what == 0 && depth == 1)
			serve_backup(); /* a soft interrupt does not interrupt another */
		else
			some_operation();
		depth--;
	} else if (what < 6 && depth == 0 && running >= 0) {
		switched++;
		int me = running;
		swapcontext(&tasks[me], &scheduler);
		running = me;
	}
}

static void task(void)
{
	for (;;) {
		half_done[running] = true;
		some_operation();
		half_done[running] = false;
		int me = running;
		swapcontext(&tasks[me], &scheduler);
		running = me;
	}
}

static void go_on(int which)
{
	running = which;
	swapcontext(&scheduler, &tasks[which]);
	running = -1;
}

static void finish_all(void)
{
	for (int which = 0; which < TASKS; which++)
		while (half_done[which])
			go_on(which);
}

/* ---- nothing is half done ---- */

static void check_counts(void)
{
	const struct st_stats *stats = &cpu.stats;
	for (u32 source = 0; source < ST_SOURCES; source++)
		if (stats->fired[source] != counted.fired[source])
			fail("the events of a source were counted otherwise", source);
	if (stats->expired != counted.expired)
		fail("the events that met their deadline were counted otherwise", 0);
	if (stats->late_sum != counted.late_sum || stats->late_max != counted.late_max)
		fail("lateness was counted otherwise", 0);
}

static void check_deadlines(void)
{
	check_counts();
	for (u32 id = 1; id < ST_EVENTS; id++) {
		if (model[id].on != (bool)st_linked(&cpu, id))
			fail("the wheel and the model differ", id);
		if (model[id].on && model[id].contexts >> ST_SRC_backup & 1 && model[id].deadline < mock_now)
			fail("its deadline has passed", id);
	}
}

/* Time goes on, and the backup is served when it is due: until nothing is, for a visit takes few steps. */
static void advance(u64 by)
{
	u64 until = mock_now + by;
	while (backup.timer.armed && backup.timer.at <= until) {
		if (backup.timer.at > mock_now)
			mock_now = backup.timer.at;
		depth = 3; /* time stands still for what is served */
		expected_source = ST_SRC_backup;
		u64 before = mock_now;
		serve_backup();
		mock_now = before;
		expected_source = ST_SOURCES;
		depth = 0;
	}
	check_deadlines();
	if (mock_now < until)
		mock_now = until;
}

static void check_trigger(void)
{
	u32 source = any(10);
	depth = 3;
	expected_source = source;
	u64 now = mock_now;
	for (int visits = 0; st_trigger(source); visits++) {
		/* A handler may schedule for the same moment again and again, but not always. */
		if (visits > 100000)
			fail("visits do not end", 0);
		mock_now = now;
	}
	expected_source = ST_SOURCES;
	depth = 0;
	check_counts();
	for (u32 id = 1; id < ST_EVENTS; id++)
		if (model[id].on && model[id].contexts >> source & 1 && model[id].due <= now)
			fail("a trigger state passed it over", id);
}

int main(int argc, char **argv)
{
	u64 steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
	random_state = argc > 2 ? strtoull(argv[2], NULL, 10) * 0x9E3779B97F4A7C15ULL | 1 : 88172645463325252ULL;
	mock_now = 1000000 + any(1ULL << 40);
	depth = 3;
	st_init();
	depth = 0;
	for (int which = 0; which < TASKS; which++) {
		getcontext(&tasks[which]);
		tasks[which].uc_stack.ss_size = 256 * 1024;
		tasks[which].uc_stack.ss_sp = malloc(tasks[which].uc_stack.ss_size);
		tasks[which].uc_link = NULL;
		makecontext(&tasks[which], task, 0);
	}
	for (u64 step = 0; step < steps; step++) {
		go_on(any(TASKS));
		if (any(6) == 0) {
			finish_all();
			advance(any(100) < 95 ? any(5000) : any(5000000));
			if (any(2))
				check_trigger();
		}
	}
	printf("steps %llu fired %llu backup %llu moved %llu cancelled %llu refused %llu between %llu switched %llu nested %llu "
	       "held %llu visits %llu rearms %llu\n",
	       steps, fired, by_backup, moved, cancelled, refused, between, switched, cpu.stats.nested, cpu.stats.held,
	       cpu.stats.visits, cpu.stats.rearms);
	finish_all();
	check_counts();
	/* What was compared came about, or nothing was compared. */
	if (!counted.expired || counted.expired == fired || !counted.late_max || !same_tick)
		fail("no deadline came, or every one, or no event was late, or none had another of its tick beside it", 0);
	return fired > steps / 100 && by_backup && moved && cancelled && (refused && cpu.stats.nested && cpu.stats.held) ? 0 : 2;
}
