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
