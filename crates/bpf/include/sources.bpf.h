/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The kernel's trigger states, by the tracepoint that marks each (soft timers section 3). Several tracepoints make one
 * source. Never those of timers themselves: an event that sets a bpf_timer would trigger itself.
 */
#ifndef SOFTTIMERS_SOURCES_BPF_H
#define SOFTTIMERS_SOURCES_BPF_H

enum {
	ST_SRC_sys_exit = 0,
	ST_SRC_page_fault_user = 1,
	ST_SRC_page_fault_kernel = 1,
	ST_SRC_irq_handler_exit = 2,
	ST_SRC_softirq_exit = 3,
	ST_SRC_local_timer_exit = 4,
	ST_SRC_reschedule_exit = 5,
	ST_SRC_call_function_exit = 5,
	ST_SRC_call_function_single_exit = 5,
	ST_SRC_irq_work_exit = 5,
	ST_SRC_cpu_idle = 6,
	ST_SRC_net_dev_xmit = 7,
	ST_SRC_napi_poll = 8,
	ST_SRC_sched_switch = 9,
	ST_SRC_poll = 14,   /* st_poll() */
	ST_SRC_backup = 15, /* the bpf_timer: a soft interrupt */
	ST_SOURCES = 16,
};

/* All tracepoints but cpu_idle, whose arguments matter. */
#define ST_EVERY_TRACEPOINT(X)      \
	X(sys_exit)                 \
	X(page_fault_user)          \
	X(page_fault_kernel)        \
	X(irq_handler_exit)         \
	X(softirq_exit)             \
	X(local_timer_exit)         \
	X(reschedule_exit)          \
	X(call_function_exit)       \
	X(call_function_single_exit) \
	X(irq_work_exit)            \
	X(net_dev_xmit)             \
	X(napi_poll)                \
	X(sched_switch)

#endif
