/* softtimers.h: microsecond timers and even packet pacing for ordinary Linux programs.
 *
 * Written by `cargo xtask header`; what it says is said in crates/capi/src/border.
 *
 *     your loop:  wait -> handle -> softtimers_timers_run -> softtimers_backup_arm -> wait
 *                                    what is due, called       the descriptor wakes the
 *                                    from here, in C           loop at the deadline
 *
 * Functions that return an int return 0 or a positive answer, or a negative errno: -EINVAL for a missing or wrong
 * argument, and then nothing has changed; -ENOTRECOVERABLE if the library failed, now or in an earlier call with this
 * object, which can only be freed then.
 *
 * An object belongs to one thread, the one that made it, until softtimers_adopt. Every function looks at its object before
 * it uses it, and ends the process by abort() with a line on standard error, which names function and object, where the
 * object is NULL (but for the functions that free), was freed, is of another type, or is another thread's. Else only
 * running out of memory ends the process.
 *
 * A function that is called from here may free the object that called it: its loop ends, and answers as ever. Handles are numbers that are neither 0
 * nor 2^64 - 1; one that is stale, of another object, or made up names nothing. MIT or Apache-2.0.
 */
#ifndef SOFTTIMERS_H
#define SOFTTIMERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A set of timers. */
typedef struct softtimers_timers softtimers_timers;

/** A kernel timer behind a descriptor. */
typedef struct softtimers_backup softtimers_backup;

/** The departures of one flow. */
typedef struct softtimers_pace softtimers_pace;

/** A queue of the packets of many flows. */
typedef struct softtimers_flows softtimers_flows;

/** Decides when to poll one source. */
typedef struct softtimers_policy softtimers_policy;

/** Shuts input by the length of a queue (Mogul and Ramakrishnan 1997, section 6.6.1). */
typedef struct softtimers_feedback softtimers_feedback;

/** Shuts input when packets have used their share of a CPU (section 7). */
typedef struct softtimers_cpu_limit softtimers_cpu_limit;

/** A histogram of 7.7 KiB. */
typedef struct softtimers_histogram softtimers_histogram;

/** A set of callouts. */
typedef struct softtimers_callouts softtimers_callouts;

/** A set of interval timers. It ends with the process; do not use it in a child of `fork`. */
typedef struct softtimers_itimers softtimers_itimers;

/** A path, both ways. */
typedef struct softtimers_wan softtimers_wan;

/* ---------------------------------------------------------------------------------------
 * The clock, and functions for all objects.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC, as `uint64_t`. SOFTTIMERS_NEVER stands for no time.
 */

/**
 * The version that this header was written for: major, minor and patch, each in a byte.
 */
#define SOFTTIMERS_VERSION 512

/**
 * No time: nothing is pending, or none was given.
 */
#define SOFTTIMERS_NEVER UINT64_MAX

/**
 * A function to be called with its argument. The library never calls one; it hands them out when they are
 * due.
 */
typedef void (*softtimers_function)(void *argument);

/**
 * A due call: a function and its argument. The function may be NULL if the argument suffices.
 */
typedef struct softtimers_call {
    /**
     * The function to call.
     */
    softtimers_function function;
    /**
     * The argument to call it with.
     */
    void *argument;
} softtimers_call;

/**
 * The version of the library that is linked: "0.2.0".
 * Thread: any.
 */
const char *softtimers_version(void);

/**
 * The present time. About 20 ns, no system call.
 * Thread: any.
 */
uint64_t softtimers_now(void);

/**
 * The paper's operation 1: the resolution of the measurement clock in ticks a second, 1,000,000,000 on any kernel with
 * high-resolution timers.
 * Thread: any.
 */
uint64_t softtimers_measure_resolution(void);

/**
 * The paper's operation 2: the time of the measurement clock in its ticks, for intervals. It never goes
 * back, within a thread or between threads. With a resolution of 10^9 it is `softtimers_now`. Thread: any.
 */
uint64_t softtimers_measure_time(void);

/**
 * Hands an object over: from now on it belongs to the calling thread. No other thread may be using it, and
 * the program must synchronise the two threads. Any object may be given, and no other pointer. Always 0.
 * Thread: any.
 */
int softtimers_adopt(void *object);

/**
 * Returns the number of an object's life, unique among all objects. With `softtimers_lives` a loop over due
 * events detects that a call has freed the object; `softtimers_timers_run` and `softtimers_softclock` do so.
 * Thread: any.
 */
uint64_t softtimers_life(void *object);

/**
 * Returns 1 if the object still has this life, 0 if it was freed, even if another object is in its place.
 * Only this function may be given a freed object. Thread: any.
 */
int softtimers_lives(void *object, uint64_t life);

/* ---------------------------------------------------------------------------------------
 * Soft timers: events with due times, fired at the points where a program checks the clock.
 *
 * After a handler, after a system call, before sleeping: `softtimers_timers_trigger` costs a compare when nothing is
 * due. Pull due events with `softtimers_timers_next`, or call them by `softtimers_timers_run`.
 */

/**
 * Slack: a tenth of the delay, at most 50 us.
 */
#define SOFTTIMERS_SLACK_DEFAULT UINT64_MAX

/**
 * Slack: any lateness; the event never arms the hardware timer.
 */
#define SOFTTIMERS_SLACK_DEFERRABLE (UINT64_MAX - 1)

/**
 * Added to a slack in nanoseconds below 2^62: the due time may move within it to a round tick, so that
 * time-outs which rarely fire share wake-ups.
 */
#define SOFTTIMERS_SLACK_ROUNDED (1ull << 62)

/**
 * A system call has returned.
 */
#define SOFTTIMERS_SYSCALL_EXIT 0

/**
 * The kernel has reported a source ready.
 */
#define SOFTTIMERS_READINESS 1

/**
 * A handler has returned to its loop.
 */
#define SOFTTIMERS_HANDLER_EXIT 2

/**
 * A packet was sent by a loop that sends many.
 */
#define SOFTTIMERS_SEND 3

/**
 * A step of a loop over a protocol's own timers is done.
 */
#define SOFTTIMERS_PROTOCOL_TIMER 4

/**
 * Before sleeping, after waking.
 */
#define SOFTTIMERS_IDLE 5

/**
 * The backup has gone off.
 */
#define SOFTTIMERS_BACKUP 6

/**
 * The settings of a set of timers. Zeros are the defaults.
 */
typedef struct softtimers_config {
    /**
     * The unit to which due times are rounded up, so that events closer than that share a wake-up: 1,000 by default.
     */
    uint64_t tick_ns;
    /**
     * The step of the clock that supplies `now`, where it is coarser than a nanosecond: every delay is longer by it.
     */
    uint64_t clock_step_ns;
} softtimers_config;

/**
 * An event that is handed out.
 */
typedef struct softtimers_fired {
    /**
     * The call that was scheduled.
     */
    softtimers_call call;
    /**
     * The handle it had; dead from now on.
     */
    uint64_t handle;
    /**
     * The requested due time.
     */
    uint64_t due;
    /**
     * The time of the turn minus `due`.
     */
    uint64_t lateness_ns;
} softtimers_fired;

/**
 * Counters since the beginning.
 */
typedef struct softtimers_stats {
    /**
     * Events that were scheduled.
     */
    uint64_t scheduled;
    /**
     * Events that were handed out.
     */
    uint64_t fired;
    /**
     * Events that were cancelled.
     */
    uint64_t cancelled;
    /**
     * Events that were moved.
     */
    uint64_t rearmed;
    /**
     * Trigger states that were reached.
     */
    uint64_t triggers;
    /**
     * Events that are waiting.
     */
    uint64_t pending;
} softtimers_stats;

/**
 * Makes an empty set of timers; `config` may be NULL.
 * -EINVAL: `out` is NULL.
 * Thread: any; the set belongs to the caller's.
 */
int softtimers_timers_new(const struct softtimers_config *config, softtimers_timers **out);

/**
 * Frees a set of timers without calling its pending events. Does nothing for NULL. Thread: its own.
 */
int softtimers_timers_free(softtimers_timers *timers);

/**
 * Schedules a call for at least `delay_ns` after `now`, at most `slack_ns` later than that. Its handle is written to
 * `handle`, which may be NULL. O(1).
 * -EINVAL: a slack of 2^63 or more other than the constants. Thread: its own.
 */
int softtimers_timers_schedule(softtimers_timers *timers,
                               uint64_t now,
                               uint64_t delay_ns,
                               uint64_t slack_ns,
                               softtimers_call call,
                               uint64_t *handle);

/**
 * Schedules a call for the time `due`, at most `slack_ns` later; a time in the past is due at once. Otherwise as
 * `softtimers_timers_schedule`.
 * Thread: its own.
 */
int softtimers_timers_schedule_at(softtimers_timers *timers,
                                  uint64_t now,
                                  uint64_t due,
                                  uint64_t slack_ns,
                                  softtimers_call call,
                                  uint64_t *handle);

/**
 * Moves a pending event to `delay_ns` after `now`. O(1).
 * -EINVAL: an invalid slack, or an invalid handle: called, cancelled, of another set, invented. Thread: its
 * own.
 */
int softtimers_timers_reschedule(softtimers_timers *timers,
                                 uint64_t now,
                                 uint64_t handle,
                                 uint64_t delay_ns,
                                 uint64_t slack_ns);

/**
 * Moves a pending event to the time `due`. Otherwise as `softtimers_timers_reschedule`.
 * Thread: its own.
 */
int softtimers_timers_reschedule_at(softtimers_timers *timers,
                                    uint64_t now,
                                    uint64_t handle,
                                    uint64_t due,
                                    uint64_t slack_ns);

/**
 * Cancels a pending event. Writes the cancelled call to `call`, which may be NULL. O(1).
 * -EINVAL: a handle that names nothing.
 * Thread: its own.
 */
int softtimers_timers_cancel(softtimers_timers *timers, uint64_t handle, softtimers_call *call);

/**
 * Returns whether an event is pending: 1 or 0. 0 also for an invalid handle. Thread: its own.
 */
int softtimers_timers_is_pending(softtimers_timers *timers, uint64_t handle);

/**
 * The paper's operation 3: schedules `function(argument)` at least `ticks` ticks of the measurement clock
 * from now, which is read here. Its handle is written to `handle`, which may be NULL. Its slack is zero.
 * -EINVAL: no function. Thread: its own.
 */
int softtimers_schedule_soft_event(softtimers_timers *timers,
                                   uint64_t ticks,
                                   softtimers_function function,
                                   void *argument,
                                   uint64_t *handle);

/**
 * Visits a trigger state. 1 if an event may be due, and then `softtimers_timers_next` hands out those due at
 * `now`; 0 if none is. An event scheduled meanwhile, even for `now`, belongs to a later visit, so that each
 * one ends. A compare when nothing is due. -EINVAL: a `source` other than the constants. Thread: its own.
 */
int softtimers_timers_trigger(softtimers_timers *timers, uint32_t source, uint64_t now);

/**
 * The next event of the last visit: 1 and it is written to `fired`, or 0 when there is none left.
 * -EINVAL: no `fired`.
 * Thread: its own.
 */
int softtimers_timers_next(softtimers_timers *timers, struct softtimers_fired *fired);

/**
 * Returns the earliest time at which a hardware timer must fire if no trigger state is met, for
 * `softtimers_backup_arm` or a wait's time-out. SOFTTIMERS_NEVER if nothing needs that. Firing earlier is
 * harmless; firing later makes events late. Thread: its own.
 */
uint64_t softtimers_timers_poll_at(softtimers_timers *timers);

/**
 * Events waiting.
 * Thread: its own.
 */
size_t softtimers_timers_len(softtimers_timers *timers);

/**
 * Counters since the beginning.
 * -EINVAL: no `stats`.
 * Thread: its own.
 */
int softtimers_timers_stats(softtimers_timers *timers, struct softtimers_stats *stats);

/**
 * Adds the lateness of all events handed out so far, in nanoseconds, to a histogram.
 * Thread: that of both.
 */
int softtimers_timers_lateness(softtimers_timers *timers, softtimers_histogram *histogram);

/* ---------------------------------------------------------------------------------------
 * The backup: the one kernel timer behind the trigger states, as a descriptor for any loop.
 *
 * After each batch of events: `softtimers_backup_arm(backup, now, softtimers_timers_poll_at(timers))`. The descriptor is
 * readable at that time; then `softtimers_backup_expired`, and a trigger state.
 */

/**
 * The cost of a backup so far.
 */
typedef struct softtimers_backup_stats {
    /**
     * Calls to `softtimers_backup_arm`.
     */
    uint64_t asked;
    /**
     * Calls among those with a system call to set the timer.
     */
    uint64_t set;
    /**
     * Calls among those with a system call to clear it.
     */
    uint64_t cleared;
    /**
     * Times it went off.
     */
    uint64_t expirations;
} softtimers_backup_stats;

/**
 * Makes a backup that goes off once, at the time it is armed for; not armed yet.
 * -EINVAL: `out` is NULL. -EMFILE and others: the kernel refuses another descriptor.
 * Thread: any; it belongs to the caller's.
 */
int softtimers_backup_new(softtimers_backup **out);

/**
 * Makes a backup that goes off `hz` times a second from `now` on, whatever is pending: the paper's periodic interrupt.
 * -EINVAL: `out` is NULL, or `hz` is zero or more than 10^9. Others: the kernel refuses another descriptor.
 * Thread: any; it belongs to the caller's.
 */
int softtimers_backup_new_tick(uint32_t hz, uint64_t now, softtimers_backup **out);

/**
 * Frees a backup and closes its descriptor. Does nothing for NULL. Thread: its own.
 */
int softtimers_backup_free(softtimers_backup *backup);

/**
 * Returns its descriptor. Watch it for reading; neither read nor close it. Thread: its own.
 */
int softtimers_backup_fd(softtimers_backup *backup);

/**
 * Makes the descriptor readable at `poll_at` at the latest; never, for SOFTTIMERS_NEVER. Does nothing to a
 * tick. No system call while the armed time is early enough, otherwise one. Thread: its own.
 */
int softtimers_backup_arm(softtimers_backup *backup, uint64_t now, uint64_t poll_at);

/**
 * Call this when the descriptor was reported readable. Writes how often the timer has gone off since the
 * last call to `count`, which may be NULL; 0 if the report was stale. Thread: its own.
 */
int softtimers_backup_expired(softtimers_backup *backup, uint64_t *count);

/**
 * The paper's operation 4: how often a second the backup interrupts, the least resolution to expect: the
 * rate of a tick; for a one-shot timer, the kernel's resolution. Thread: its own.
 */
uint64_t softtimers_interrupt_clock_resolution(softtimers_backup *backup);

/**
 * Counters since the beginning.
 * -EINVAL: no `stats`.
 * Thread: its own.
 */
int softtimers_backup_stats_of(softtimers_backup *backup, struct softtimers_backup_stats *stats);

/* ---------------------------------------------------------------------------------------
 * Pacing: when the next packet of a flow may leave.
 *
 * Tell it when a packet left, and it returns when the next one may: on schedule at the rate, after a stall a
 * little faster, never in a burst. It reads no clock and sends nothing.
 */

/**
 * At its scheduled time, but no sooner than the burst interval after the last.
 */
#define SOFTTIMERS_PACE_EXACT 0

/**
 * The paper's rule: one interval from now, or one burst interval while behind.
 */
#define SOFTTIMERS_PACE_TWO_SPEED 1

/**
 * At its scheduled time, however close: it bursts after each stall.
 */
#define SOFTTIMERS_PACE_FIXED 2

/**
 * One interval after the last: it drifts.
 */
#define SOFTTIMERS_PACE_RELATIVE 3

/**
 * The pace of a flow. Exactly one of the first three is not zero; zeros of the others are the defaults.
 */
typedef struct softtimers_pace_config {
    /**
     * The gap between packets.
     */
    uint64_t interval_ns;
    /**
     * The rate in packets a second.
     */
    uint64_t packets_per_second;
    /**
     * Bits a second, for packets of any length: each is followed by the time its bytes take.
     */
    uint64_t bits_per_second;
    /**
     * The shortest gap when catching up: nine sixteenths of the gap by default, at most the gap.
     */
    uint64_t burst_interval_ns;
    /**
     * The longest delay that is made up: 10 ms by default; SOFTTIMERS_NEVER for no limit.
     */
    uint64_t catch_up_ns;
    /**
     * The most packets that are made up: no limit by default.
     */
    uint64_t catch_up_packets;
    /**
     * One of the constants.
     */
    uint32_t strategy;
} softtimers_pace_config;

/**
 * Makes a flow that has not started. Call softtimers_pace_start first: until then the schedule begins at
 * time zero. -EINVAL: `config` or `out` is NULL, no rate or two, a burst interval longer than the gap, or an
 * unknown strategy. Thread: any; it belongs to the caller's.
 */
int softtimers_pace_new(const struct softtimers_pace_config *config, softtimers_pace **out);

/**
 * Frees a flow. Does nothing for NULL. Thread: its own.
 */
int softtimers_pace_free(softtimers_pace *pace);

/**
 * Begins a train: the first packet may leave at `now`, which is returned, and earlier times do not count.
 * Call it at the start and after an idle time. Thread: its own.
 */
uint64_t softtimers_pace_start(softtimers_pace *pace, uint64_t now);

/**
 * Records that `packets` packets of `bytes` bytes in all left together at `now`; returns the earliest time for the next one.
 * Times must not go backwards. A packet that the kernel has refused uses up its scheduled time: call this
 * for it, too. One that failed with -EAGAIN does not: send it when the socket is writable. Thread: its own.
 */
uint64_t softtimers_pace_departed(softtimers_pace *pace,
                                  uint64_t now,
                                  uint32_t packets,
                                  uint32_t bytes);

/**
 * Changes the rate from `now` on, without a burst, to that of `config`, in the same unit as before: packets
 * or bits. The other fields of `config` are ignored. Writes the earliest time for the next packet to `next`.
 * -EINVAL: a NULL argument, no rate or two, or bits for packets. Thread: its own.
 */
int softtimers_pace_set_rate(softtimers_pace *pace,
                             uint64_t now,
                             const struct softtimers_pace_config *config,
                             uint64_t *next);

/**
 * Returns the scheduled time of the next departure, against which lateness is measured: call it before
 * softtimers_pace_departed. Thread: its own.
 */
uint64_t softtimers_pace_place(softtimers_pace *pace);

/**
 * Packets that have left.
 * Thread: its own.
 */
uint64_t softtimers_pace_departures(softtimers_pace *pace);

/**
 * Scheduled times skipped because the flow fell too far behind.
 * Thread: its own.
 */
uint64_t softtimers_pace_forfeited(softtimers_pace *pace);

/**
 * Scheduled times that have passed unused and may still be made up. Thread: its own.
 */
uint64_t softtimers_pace_behind(softtimers_pace *pace, uint64_t now);

/* ---------------------------------------------------------------------------------------
 * Many flows, each at its own rate: packets go in as they come and come out when they may leave.
 *
 * One `softtimers_flows` is enough for all connections of a program: `softtimers_flows_turn`, then
 * `softtimers_flows_pop` until 0; `softtimers_flows_poll_at` returns when to check next.
 */

/**
 * A packet that leaves.
 */
typedef struct softtimers_departure {
    /**
     * The flow it belongs to.
     */
    uint64_t flow;
    /**
     * The packet that was enqueued.
     */
    uint64_t packet;
    /**
     * Its scheduled time.
     */
    uint64_t place;
    /**
     * The time between its scheduled time and its departure, in nanoseconds.
     */
    uint64_t lateness_ns;
    /**
     * The length of the packet.
     */
    uint32_t bytes;
    /**
     * Always zero.
     */
    uint32_t reserved;
} softtimers_departure;

/**
 * Makes a queue for at most `packets` packets of all flows together; 0 for a million.
 * -EINVAL: `out` is NULL.
 * Thread: any; it belongs to the caller's.
 */
int softtimers_flows_new(uint32_t packets, softtimers_flows **out);

/**
 * Frees a queue and discards its packets. Does nothing for NULL. Thread: its own.
 */
int softtimers_flows_free(softtimers_flows *flows);

/**
 * Adds a flow, of which at most `packets` may wait; 0 for 100. Its handle is written to `flow`.
 * -EINVAL: a NULL argument, or a pace that `softtimers_pace_new` would refuse. Thread: its own.
 */
int softtimers_flows_add(softtimers_flows *flows,
                         const softtimers_pace_config *pace,
                         uint32_t packets,
                         uint64_t *flow);

/**
 * Removes a flow and discards its waiting packets; returns their number. -EINVAL: an invalid handle. Thread:
 * its own.
 */
int softtimers_flows_remove(softtimers_flows *flows, uint64_t flow);

/**
 * Changes a flow's rate from `now` on, without a burst, to that of `pace`, in the same unit as before.
 * -EINVAL: a NULL argument, no rate or two, or an invalid handle. Thread: its own.
 */
int softtimers_flows_set_rate(softtimers_flows *flows,
                              uint64_t now,
                              uint64_t flow,
                              const softtimers_pace_config *pace);

/**
 * Enqueues a packet of `bytes` bytes that may leave from `now` on. O(1).
 * -EINVAL: an invalid handle. -ENOBUFS: the flow or the queue is full. Thread: its own.
 */
int softtimers_flows_enqueue(softtimers_flows *flows, uint64_t now, uint64_t flow, uint32_t bytes, uint64_t packet);

/**
 * Begins a turn: `softtimers_flows_pop` hands out what may leave at `now`. A compare when nothing may.
 * Thread: its own.
 */
int softtimers_flows_turn(softtimers_flows *flows, uint64_t now);

/**
 * The next packet of the turn, in the order of release times: 1 and it is written to `departure`, or 0. If
 * one cannot be sent for want of room, keep it, and take no other until there is room: its departure has
 * been counted. -EINVAL: no `departure`. Thread: its own.
 */
int softtimers_flows_pop(softtimers_flows *flows, struct softtimers_departure *departure);

/**
 * The earliest release time; SOFTTIMERS_NEVER if nothing waits.
 * Thread: its own.
 */
uint64_t softtimers_flows_poll_at(softtimers_flows *flows);

/**
 * Packets waiting.
 * Thread: its own.
 */
size_t softtimers_flows_len(softtimers_flows *flows);

/* ---------------------------------------------------------------------------------------
 * Receive policies: when to poll a source of packets.
 *
 * A look is one visit to a source, from its first packet until its ring was seen empty. A policy is told of
 * it and decides when the next one is: now, at a time, or when the kernel wakes the program.
 */

/**
 * By one number, the longest delay: polls while that pays. The default.
 */
#define SOFTTIMERS_POLICY_DELAY_BOUND 0

/**
 * At the interval that finds a target number of packets (soft timers, section 4.2).
 */
#define SOFTTIMERS_POLICY_AGGREGATION 1

/**
 * By mean and spread of the gaps between packets (Dovrolis, Thayer and Ramanathan 2001).
 */
#define SOFTTIMERS_POLICY_HIP 2

/**
 * A wake-up for each packet.
 */
#define SOFTTIMERS_POLICY_INTERRUPTS 3

/**
 * Polls all the time.
 */
#define SOFTTIMERS_POLICY_BUSY_WAIT 4

/**
 * At the multiples of a period.
 */
#define SOFTTIMERS_POLICY_CONSTANT_PERIOD 5

/**
 * Spins after each packet, then waits for a wake-up.
 */
#define SOFTTIMERS_POLICY_SPIN_THEN_BLOCK 6

/**
 * At every trigger state, with a watchdog.
 */
#define SOFTTIMERS_POLICY_WATCHDOG 7

/**
 * At its next turn.
 */
#define SOFTTIMERS_LOOK_NOW 0

/**
 * At a time; its wake-up stays off until then.
 */
#define SOFTTIMERS_LOOK_AT 1

/**
 * At every trigger state; a packet that has waited for a while wakes the program.
 */
#define SOFTTIMERS_LOOK_WATCHED 2

/**
 * When a packet has arrived: enable the wake-up, then poll the source once more.
 */
#define SOFTTIMERS_LOOK_ARMED 3

/**
 * A policy and its parameters. Zeros of those are the defaults.
 */
typedef struct softtimers_policy_config {
    /**
     * One of the constants.
     */
    uint32_t kind;
    /**
     * The target number of packets per poll, on average: for a delay bound and for aggregation.
     */
    uint32_t quota;
    /**
     * The longest wait for a poll, the period of a constant period, how long to spin or to watch.
     */
    uint64_t time_ns;
} softtimers_policy_config;

/**
 * When to poll next.
 */
typedef struct softtimers_next {
    /**
     * One of the constants.
     */
    uint32_t what;
    /**
     * The time for SOFTTIMERS_LOOK_AT, a span for SOFTTIMERS_LOOK_WATCHED, otherwise SOFTTIMERS_NEVER.
     */
    uint64_t time;
} softtimers_next;

/**
 * Makes a policy.
 * -EINVAL: `config` or `out` is NULL, or an unknown policy; a constant period or a spin without a time.
 * Thread: any; it belongs to the caller's.
 */
int softtimers_policy_new(const struct softtimers_policy_config *config, softtimers_policy **out);

/**
 * Frees a policy. Does nothing for NULL. Thread: its own.
 */
int softtimers_policy_free(softtimers_policy *policy);

/**
 * Records a packet that arrived at `at`: call it for each, in order, before `softtimers_policy_looked`.
 * Thread: its own.
 */
int softtimers_policy_arrived(softtimers_policy *policy, uint64_t at);

/**
 * Records a look that began and ended at these times and found `found` packets. Writes the time of the next look to `next`,
 * which may be NULL.
 * -EINVAL: it ended before it began.
 * Thread: its own.
 */
int softtimers_policy_looked(softtimers_policy *policy,
                             uint64_t began,
                             uint64_t ended,
                             uint32_t found,
                             struct softtimers_next *next);

/**
 * Notes that the program is about to sleep. Writes when to poll next to `next`, which may be NULL. Thread:
 * its own.
 */
int softtimers_policy_idle(softtimers_policy *policy, uint64_t now, struct softtimers_next *next);

/* ---------------------------------------------------------------------------------------
 * Limits on input: whether packets may be taken at all, so that a program under overload still finishes some
 * of its work.
 *
 * Both return the time from which input is open: 0 while it is open, otherwise the time until which it is
 * shut.
 */

/**
 * Makes the feedback of a queue with room for `capacity` packets: shut at three quarters, open at one, and
 * after four times its drain time. -EINVAL: `out` is NULL, or a capacity of zero. Thread: any; it belongs to
 * the caller's.
 */
int softtimers_feedback_new(uint32_t capacity, softtimers_feedback **out);

/**
 * Frees a feedback. Does nothing for NULL. Thread: its own.
 */
int softtimers_feedback_free(softtimers_feedback *feedback);

/**
 * Records that packets were put into the queue, or dropped because it was full; `depth` wait now.
 * Thread: its own.
 */
uint64_t softtimers_feedback_offered(softtimers_feedback *feedback, uint64_t now, uint32_t depth);

/**
 * Records that the consumer took some; `depth` wait now.
 * Thread: its own.
 */
uint64_t softtimers_feedback_drained(softtimers_feedback *feedback, uint64_t now, uint32_t depth);

/**
 * Returns the time from which input is open. Thread: its own.
 */
uint64_t softtimers_feedback_input(softtimers_feedback *feedback, uint64_t now);

/**
 * Makes a limit of `percent` of a CPU in each period; 0 for the paper's period of 10 ms. -EINVAL: `out` is
 * NULL, or more than 100 percent. Thread: any; it belongs to the caller's.
 */
int softtimers_cpu_limit_new(uint32_t percent, uint64_t period_ns, softtimers_cpu_limit **out);

/**
 * Frees a limit. Does nothing for NULL. Thread: its own.
 */
int softtimers_cpu_limit_free(softtimers_cpu_limit *limit);

/**
 * The handling of packets begins; the thread's CPU time is `cpu_ns`. Thread: its own.
 */
int softtimers_cpu_limit_begin(softtimers_cpu_limit *limit, uint64_t cpu_ns);

/**
 * The handling of packets is over; the thread's CPU time is `cpu_ns`. Thread: its own.
 */
uint64_t softtimers_cpu_limit_end(softtimers_cpu_limit *limit, uint64_t now, uint64_t cpu_ns);

/**
 * Returns the time from which input is open. Thread: its own.
 */
uint64_t softtimers_cpu_limit_input(softtimers_cpu_limit *limit, uint64_t now);

/* ---------------------------------------------------------------------------------------
 * Histograms: counts of numbers, usually nanoseconds, in constant memory, within 3.2%.
 */

/**
 * Makes an empty histogram.
 * -EINVAL: `out` is NULL.
 * Thread: any; it belongs to the caller's.
 */
int softtimers_histogram_new(softtimers_histogram **out);

/**
 * Frees a histogram. Does nothing for NULL. Thread: its own.
 */
int softtimers_histogram_free(softtimers_histogram *histogram);

/**
 * Counts `value` `times` times.
 * -EOVERFLOW: more than 2^63 counts in all.
 * Thread: its own.
 */
int softtimers_histogram_record(softtimers_histogram *histogram, uint64_t value, uint64_t times);

/**
 * Adds all counts of `other`, which does not change. -EINVAL: they are the same. -EOVERFLOW: more than 2^63
 * counts in all. Thread: that of both.
 */
int softtimers_histogram_merge(softtimers_histogram *histogram, softtimers_histogram *other);

/**
 * Resets a histogram. Thread: its own.
 */
int softtimers_histogram_clear(softtimers_histogram *histogram);

/**
 * Values counted.
 * Thread: its own.
 */
uint64_t softtimers_histogram_count(softtimers_histogram *histogram);

/**
 * The least value, exactly; 0 if there is none.
 * Thread: its own.
 */
uint64_t softtimers_histogram_min(softtimers_histogram *histogram);

/**
 * The greatest value, exactly; 0 if there is none.
 * Thread: its own.
 */
uint64_t softtimers_histogram_max(softtimers_histogram *histogram);

/**
 * The arithmetic mean; 0 if there is none.
 * Thread: its own.
 */
double softtimers_histogram_mean(softtimers_histogram *histogram);

/**
 * The value below which the share `q` of all values lies, within 3.2%; 0 if there is none. `q` is clamped to
 * 0 to 1. Thread: its own.
 */
uint64_t softtimers_histogram_quantile(softtimers_histogram *histogram, double q);

/**
 * The share of values above `threshold`, by buckets; 0 if there is none.
 * Thread: its own.
 */
double softtimers_histogram_share_above(softtimers_histogram *histogram, uint64_t threshold);

/* ---------------------------------------------------------------------------------------
 * The callouts of a BSD kernel (Costello and Varghese 1998): calls at a later tick, by function and argument or by handle.
 *
 * `softtimers_tick` counts a tick and returns whether softclock is wanted; `softtimers_softclock` makes the
 * due calls; `softtimers_hardclock` does both unless something is held. Calls are made by the header, in C.
 */

/**
 * Counters of a set of callouts.
 */
typedef struct softtimers_callout_stats {
    /**
     * Ticks that have passed.
     */
    uint64_t ticks;
    /**
     * Ticks after which softclock was wanted.
     */
    uint64_t raised;
    /**
     * Calls that were handed out.
     */
    uint64_t called;
    /**
     * The ticks by which softclock is behind.
     */
    uint64_t lag;
    /**
     * The greatest value of `lag` so far.
     */
    uint64_t most_lag;
    /**
     * Callouts that are set.
     */
    uint64_t pending;
    /**
     * Callouts among those that were set without a handle.
     */
    uint64_t hashed;
} softtimers_callout_stats;

/**
 * Makes an empty set of callouts.
 * -EINVAL: `out` is NULL.
 * Thread: any; it belongs to the caller's.
 */
int softtimers_callouts_new(softtimers_callouts **out);

/**
 * Frees a set of callouts without calling them. Does nothing for NULL. Thread: its own.
 */
int softtimers_callouts_free(softtimers_callouts *callouts);

/**
 * Schedules `function(argument)` after `ticks` ticks; zero is taken as one. The same call may be set several
 * times. O(1) on average. -EINVAL: no function. Thread: its own.
 */
int softtimers_timeout(softtimers_callouts *callouts, softtimers_function function, void *argument, uint64_t ticks);

/**
 * Cancels the callout with this function and argument that was set last: 1, or 0 if there is none, which
 * costs the same. Ignores those with a handle. -EINVAL: no function. Thread: its own.
 */
int softtimers_untimeout(softtimers_callouts *callouts, softtimers_function function, void *argument);

/**
 * As `softtimers_timeout`, to be cancelled by the handle that is written to `handle`. O(1).
 * -EINVAL: no function, or no `handle`.
 * Thread: its own.
 */
int softtimers_setcallout(softtimers_callouts *callouts,
                          softtimers_function function,
                          void *argument,
                          uint64_t ticks,
                          uint64_t *handle);

/**
 * Cancels the callout of a handle. O(1).
 * -EINVAL: an invalid handle: called, cancelled, of another set, invented. Thread: its own.
 */
int softtimers_unsetcallout(softtimers_callouts *callouts, uint64_t handle);

/**
 * Counts a tick of the clock: 1 if softclock is wanted, because a call is due or was left from before,
 * otherwise 0. A compare while nothing is near. Thread: its own.
 */
int softtimers_tick(softtimers_callouts *callouts);

/**
 * Returns the next due call: 1 and writes it to `call`, or 0 when all have been handed out. It is no longer
 * set then, and may set itself again. -EINVAL: no `call`. Thread: its own.
 */
int softtimers_softclock_next(softtimers_callouts *callouts, softtimers_call *call);

/**
 * As `softtimers_softclock_next`, in pieces of a few microseconds at most, so that a lock may be released
 * between two: 1 and the call is written to `call`, 2 if there may be more to do, 0 when all have been
 * handed out. -EINVAL: no `call`. Thread: its own.
 */
int softtimers_softclock_step(softtimers_callouts *callouts, softtimers_call *call);

/**
 * Makes ticks only count until `softtimers_release`: `softtimers_hardclock` calls nothing. May be nested. 1
 * if something was held before, otherwise 0. Thread: its own.
 */
int softtimers_hold(softtimers_callouts *callouts);

/**
 * Ends a `softtimers_hold`: 1 if softclock should run now, because it is wanted and nothing else is held.
 * Thread: its own.
 */
int softtimers_release(softtimers_callouts *callouts);

/**
 * Counters since the beginning.
 * -EINVAL: no `stats`.
 * Thread: its own.
 */
int softtimers_callouts_stats(softtimers_callouts *callouts, struct softtimers_callout_stats *stats);

/* ---------------------------------------------------------------------------------------
 * Many interval timers behind one kernel timer (Costello and Varghese 1998, figures 6 and 7).
 *
 * The queue of expired timers is authoritative; the descriptor or the signal is only a hint to check it. So
 * reap until -EAGAIN. The process's own ITIMER_REAL is not touched; a program that uses it needs another
 * signal than SIGALRM for a set, or a descriptor, since Linux drops ITIMER_REAL's signal while a set's is
 * still pending.
 */

/**
 * The most timers that a set may have when 0 is given.
 */
#define SOFTTIMERS_ITIMERS_DEFAULT_MOST 65536

/**
 * The setting of an interval timer.
 */
typedef struct softtimers_setting {
    /**
     * Until the next expiry; 0 for a timer that has expired and was not reaped.
     */
    uint64_t value_ns;
    /**
     * From one expiry to the next; 0 for a timer that expires once.
     */
    uint64_t interval_ns;
} softtimers_setting;

/**
 * A timer that has expired.
 */
typedef struct softtimers_expired {
    /**
     * Its handle: dead unless it runs.
     */
    uint64_t handle;
    /**
     * The label of the timer.
     */
    uint64_t label;
    /**
     * The time at which it expired.
     */
    uint64_t at;
    /**
     * 1 if it has an interval and runs again, otherwise 0.
     */
    uint32_t runs;
    /**
     * Always zero.
     */
    uint32_t reserved;
} softtimers_expired;

/**
 * Makes a set of at most `most` timers over a timerfd, whose descriptor is readable while one waits to be reaped.
 * -EINVAL: `out` is NULL, or `most` is above 2^27. Others: the kernel refuses another descriptor.
 * Thread: any; it belongs to the caller's.
 */
int softtimers_itimers_new(uint32_t most, softtimers_itimers **out);

/**
 * Makes a set of at most `most` timers over a POSIX timer, which sends the process `signal`. The program
 * must handle it or wait for it: most signals end a process that does neither. -EINVAL: `out` is NULL,
 * `most` is above 2^27, or a program cannot handle the signal. Others: the kernel refuses another timer.
 * Thread: any; it belongs to the caller's.
 */
int softtimers_itimers_new_signal(uint32_t most, int signal, softtimers_itimers **out);

/**
 * Frees a set and all its timers. Does nothing for NULL. Thread: its own.
 */
int softtimers_itimers_free(softtimers_itimers *itimers);

/**
 * Returns its descriptor. Watch it for reading; neither read nor close it. -EINVAL: the set has a signal.
 * Thread: its own.
 */
int softtimers_itimers_fd(softtimers_itimers *itimers);

/**
 * Creates a timer; its handle is written to `handle`.
 * -EINVAL: no `handle`, or a value of 0. -EAGAIN: the set is full. Thread: its own.
 */
int softtimers_itimer_create(softtimers_itimers *itimers,
                             uint64_t value_ns,
                             uint64_t interval_ns,
                             uint64_t label,
                             uint64_t *handle);

/**
 * Sets a timer again, with another label, whether it runs or has expired. Writes its former setting to
 * `former`, which may be NULL. -EINVAL: a value of 0, or an invalid handle: cancelled, reaped, of another
 * set, invented. Thread: its own.
 */
int softtimers_itimer_reset(softtimers_itimers *itimers,
                            uint64_t handle,
                            uint64_t value_ns,
                            uint64_t interval_ns,
                            uint64_t label,
                            struct softtimers_setting *former);

/**
 * Ends a timer, whether it runs or has expired. Writes its last setting to `last`, which may be NULL.
 * -EINVAL: a handle that names nothing.
 * Thread: its own.
 */
int softtimers_itimer_cancel(softtimers_itimers *itimers, uint64_t handle, struct softtimers_setting *last);

/**
 * Writes the setting of a timer to `setting`. -EINVAL: no `setting`, or an invalid handle; then `setting`
 * does not change. Thread: its own.
 */
int softtimers_itimer_query(softtimers_itimers *itimers, uint64_t handle, struct softtimers_setting *setting);

/**
 * Takes the timer that expired first out of the queue. If it has an interval it runs again, from its expiry,
 * however late this call is. -EAGAIN: none has expired. -EINVAL: no `expired`. Thread: its own.
 */
int softtimers_itimer_reap(softtimers_itimers *itimers, struct softtimers_expired *expired);

/**
 * Returns the number of timers, running or expired. Thread: its own.
 */
size_t softtimers_itimers_len(softtimers_itimers *itimers);

/**
 * `setitimer(ITIMER_MULTIREAL, value, ovalue)` of the paper's figure 6. `value->it_value` not zero: sets a new timer if
 * `ovalue->it_value` is {-1, -1}, and writes its handle there; otherwise the timer with that handle, and
 * writes its former setting to `ovalue`. `ovalue->it_interval` is its label. `value->it_value` zero: ends
 * the timer with the handle in `ovalue->it_value`. -EINVAL: a NULL argument, an invalid time, or an invalid
 * handle; -EAGAIN: the set is full. Nothing changes then. (The paper returns -1 and sets errno.) Thread: its
 * own.
 */
int softtimers_multi_setitimer(softtimers_itimers *itimers,
                               const struct itimerval *value,
                               struct itimerval *ovalue);

/**
 * `getitimer(ITIMER_MULTIREAL, value)` of the paper's figure 7. `value->it_value` {-1, -1}: reaps the timer that expired
 * first, and writes its handle there and its label to `value->it_interval`. Otherwise it is a handle, and
 * the setting of that timer is written to `value`. -EAGAIN: none has expired. -EINVAL: a NULL argument, or
 * an invalid handle; nothing changes then. Thread: its own.
 */
int softtimers_multi_getitimer(softtimers_itimers *itimers, struct itimerval *value);

/* ---------------------------------------------------------------------------------------
 * A network path in virtual time: delay, rate, queue and loss, for tests, the same for the same seed.
 *
 * Packets go in with `softtimers_wan_offer` and come out of `softtimers_wan_pop_due`; the caller supplies
 * the time.
 */

/**
 * From the client to the server.
 */
#define SOFTTIMERS_UP 0

/**
 * From the server to the client.
 */
#define SOFTTIMERS_DOWN 1

/**
 * The packet is under way.
 */
#define SOFTTIMERS_ACCEPTED 0

/**
 * The queue is full.
 */
#define SOFTTIMERS_QUEUE_FULL 1

/**
 * The emulator's own limit is reached: a quarter of a million packets, 256 MiB.
 */
#define SOFTTIMERS_OVERFLOW 2

/**
 * One direction of a path. Zeros are a perfect wire.
 */
typedef struct softtimers_path {
    /**
     * The rate of the slowest link; 0 for none.
     */
    uint64_t bits_per_second;
    /**
     * The limit of the queue in packets. At most one of the three limits may be nonzero; if all are zero,
     * 1,000 packets.
     */
    uint32_t queue_packets;
    /**
     * Bytes a packet takes on the link beyond its own, at most 65,535.
     */
    uint32_t overhead;
    /**
     * The limit of the queue in bytes.
     */
    uint64_t queue_bytes;
    /**
     * The limit of the queue in nanoseconds of waiting.
     */
    uint64_t queue_ns;
    /**
     * The delay of a packet behind the link, in nanoseconds.
     */
    uint64_t delay_ns;
    /**
     * The most that the delay varies either way, in nanoseconds, at most the delay; packets stay in order.
     */
    uint64_t jitter_ns;
    /**
     * Lost packets of 10^9.
     */
    uint32_t loss_ppb;
    /**
     * Packets of 10^9 that come twice.
     */
    uint32_t duplicate_ppb;
    /**
     * Packets of 10^9 with one bit flipped.
     */
    uint32_t corrupt_ppb;
    /**
     * Must be zero.
     */
    uint32_t reserved;
} softtimers_path;

/**
 * A packet that has arrived.
 */
typedef struct softtimers_delivery {
    /**
     * The packet that was offered.
     */
    uint64_t packet;
    /**
     * When it was offered.
     */
    uint64_t offered;
    /**
     * The time at which it arrives.
     */
    uint64_t due;
    /**
     * The bit that is to be flipped, counted from the first byte's least significant one; SOFTTIMERS_NEVER for none.
     */
    uint64_t flipped;
    /**
     * The length of the packet.
     */
    uint32_t bytes;
    /**
     * SOFTTIMERS_UP or SOFTTIMERS_DOWN.
     */
    uint32_t way;
    /**
     * 1 if it is the second copy, otherwise 0.
     */
    uint32_t copy;
    /**
     * Always zero.
     */
    uint32_t reserved;
} softtimers_delivery;

/**
 * The fates of all packets of one direction.
 */
typedef struct softtimers_wan_counters {
    /**
     * Packets that came in.
     */
    uint64_t offered;
    /**
     * Second copies that were made.
     */
    uint64_t duplicated;
    /**
     * Packets that came out.
     */
    uint64_t delivered;
    /**
     * Packets that found the queue full.
     */
    uint64_t queue_drops;
    /**
     * Packets beyond the emulator's own limit.
     */
    uint64_t overflowed;
    /**
     * Lost on the way.
     */
    uint64_t lost;
    /**
     * Packets that are under way.
     */
    uint64_t held;
} softtimers_wan_counters;

/**
 * Makes a path. `up` and `down` may be NULL, for a perfect wire; `seed` decides everything random. -EINVAL:
 * `out` is NULL, or an invalid path: two kinds of queue, a share above 10^9, a jitter above the delay.
 * Thread: any; it belongs to the caller's.
 */
int softtimers_wan_new(const struct softtimers_path *up,
                       const struct softtimers_path *down,
                       uint64_t seed,
                       softtimers_wan **out);

/**
 * Frees a path and the packets under way. Does nothing for NULL. Thread: its own.
 */
int softtimers_wan_free(softtimers_wan *wan);

/**
 * Offers a packet of `bytes` at `now`: SOFTTIMERS_ACCEPTED, SOFTTIMERS_QUEUE_FULL or SOFTTIMERS_OVERFLOW. An
 * accepted packet may still be lost. -EINVAL: an unknown direction. Thread: its own.
 */
int softtimers_wan_offer(softtimers_wan *wan, uint64_t now, uint32_t way, uint32_t bytes, uint64_t packet);

/**
 * Returns when to check next: SOFTTIMERS_NEVER if no packet is held. Thread: its own.
 */
uint64_t softtimers_wan_poll_at(softtimers_wan *wan);

/**
 * The next packet that has arrived by `now`, in order of arrival: 1 and it is written to `delivery`, or 0.
 * -EINVAL: no `delivery`.
 * Thread: its own.
 */
int softtimers_wan_pop_due(softtimers_wan *wan, uint64_t now, struct softtimers_delivery *delivery);

/**
 * Counts the packets of one direction. -EINVAL: an unknown direction, or no `counters`. Thread: its own.
 */
int softtimers_wan_count(softtimers_wan *wan, uint32_t way, struct softtimers_wan_counters *counters);

/* ---------------------------------------------------------------------------------------
 * Functions of the program are called from here, in C: no frame of the library is on the stack meanwhile.
 */

/** Visits a trigger state and calls all that is due, each function with its argument; events without a function are
 *  dropped. How many there were, or a negative errno. A call may free `timers`: it is the last one then.
 */
static inline int softtimers_timers_run(softtimers_timers *timers, uint32_t source, uint64_t now) {
    softtimers_fired fired;
    uint64_t life;
    int found = softtimers_timers_trigger(timers, source, now), count = 0;
    if (found <= 0) {
        return found;
    }
    life = softtimers_life(timers);
    while (softtimers_lives(timers, life) && (found = softtimers_timers_next(timers, &fired)) > 0) {
        if (fired.call.function) {
            fired.call.function(fired.call.argument);
        }
        count++;
    }
    return found < 0 ? found : count;
}

/** Calls all callouts that are due. While it does, something is held. How many there were, or a negative errno. A call
 *  that leaves by longjmp has to call softtimers_release. A call may free `callouts`: it is the last one then.
 */
static inline int softtimers_softclock(softtimers_callouts *callouts) {
    softtimers_call call;
    uint64_t life;
    int found = softtimers_hold(callouts), count = 0;
    if (found < 0) {
        return found;
    }
    life = softtimers_life(callouts);
    while (softtimers_lives(callouts, life) && (found = softtimers_softclock_next(callouts, &call)) > 0) {
        call.function(call.argument);
        count++;
    }
    if (softtimers_lives(callouts, life)) {
        (void)softtimers_release(callouts);
    }
    return found < 0 ? found : count;
}

/** A tick, and if softclock is wanted and nothing is held, all of its calls at once (figure 4). 1 if softclock is still
 *  wanted, else 0, or a negative errno.
 */
static inline int softtimers_hardclock(softtimers_callouts *callouts) {
    int wanted = softtimers_tick(callouts), held;
    if (wanted <= 0) {
        return wanted;
    }
    held = softtimers_hold(callouts);
    (void)softtimers_release(callouts);
    if (held != 0) {
        return 1;
    }
    wanted = softtimers_softclock(callouts);
    return wanted < 0 ? wanted : 0;
}

#ifdef __cplusplus
}
#endif

#endif
