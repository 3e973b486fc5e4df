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

