/* simt_internal.h: the executor's own tables, shared by simt.cpp (schedule, launch), simt_collective.cpp (warps and barriers) and
 * simt_async.cpp (mbarriers, asynchronous copies). Not for kernels or tests.
 *
 * A CUDA thread is a fiber. It runs until it waits for something or ends, then picks the next thread and switches to it directly; the hub
 * (the stack of the host's launch call) runs only to start blocks, to retire them, and when nobody can run.
 * Threads that can run are bits: warp.ready has one a lane, machine.busy one a warp, numbered slot * 32 + warp. A slot holds one resident
 * block. A unit is a cluster of blocks, or one block without clusters, and occupies neighbouring slots.
 */
#ifndef SIMT_INTERNAL_H
#define SIMT_INTERNAL_H

#include <functional>
#include <stdarg.h>
#include <stdint.h>

#include "simt_device.h"
#include "simt_switch.h"

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

enum { SIMT_WARPS = 32, SIMT_BARRIERS = 16, SIMT_MAX_SHARED = 232448, SIMT_GUARD = 1024 };
enum wait_kind { RUNNING, IN_WARP, IN_BARRIER, IN_CLUSTER, IN_MBARRIER, YIELDED, FINISHED };

struct site {
    const char *file;
    int line;
};

struct warp;
struct block;
struct unit;
struct async_copy;

struct thread {
    simt_position at; /* first: simt_self points here */
    struct fiber fiber;
    block *home;
    warp *group;
    unsigned index, lane;   /* in the block, in the warp */
    wait_kind wait;
    site where;             /* call that it waits in */
    unsigned what;          /* barrier number, mbarrier number or collective's simt_op */
    unsigned mask, ring;    /* of a collective; TSan's sync object */
    int source;             /* lane that a shuffle reads */
    uint64_t value, result; /* of a collective */
    thread *next;           /* in a list of sleepers */
    unsigned since_switch;  /* calls of simt_preempt since it was resumed */
    bool cluster_arrived;
    unsigned cluster_phase;
    async_copy *copies;     /* its cp.async that have not been waited for, oldest first */
    unsigned groups;        /* committed groups so far */
};

struct warp {
    unsigned live, ready, waiting; /* lanes that have not ended, that can run, that wait in a collective */
    thread *lanes;                 /* (32) */
    unsigned ring;
    uint64_t sync[8];              /* TSan's objects for __syncwarp, used in turn */
};

struct barrier {
    unsigned expected, arrived, kind, phase; /* expected 0: all live threads */
    site where;                              /* of the phase's first arrival */
    unsigned who[SIMT_WARPS];                /* lanes that have arrived in this phase */
    unsigned count;                          /* true predicates */
    int result[2];
    thread *sleepers;
    uint64_t sync[2];                        /* TSan's objects, by the phase's parity */
};

struct block {
    unsigned slot, rank, live;
    bool begun; /* one of its threads has run */
    unit *part_of;
    thread *threads;
    unsigned capacity; /* threads that have a stack, a multiple of 32 */
    char *stacks;
    size_t stack_bytes;
    unsigned mbarriers;   /* first of its mbarriers' numbers plus 1, 0 if none */
    char *memory, *arena; /* guard, dynamic shared memory, guard */
    warp warps[SIMT_WARPS];
    barrier barriers[SIMT_BARRIERS];
};

struct unit {
    unsigned first_slot, live_blocks, live_threads;
    unsigned arrived, phase; /* of the cluster barrier */
    thread *sleepers;
    unsigned generation; /* units that have begun in these slots */
    uint64_t sync[2], order[2]; /* order: from a unit's end to the start of the next one, by the generation's parity */
    bool active;
};

struct machine {
    /* settings */
    int schedule, resident, multiprocessors, cooperative; /* the last: 0 for as many blocks as fit */
    unsigned long long seed;
    uint64_t random;
    double preempt;
    size_t stack_bytes; /* 0: default */
    unsigned spin_limit;
    /* the launch */
    bool running, failed, retire;
    dim3 grid, threads, cluster;
    unsigned block_threads, warps, cluster_size, shared;
    const std::function<void()> *body;
    block **slots;
    unsigned slot_count, slot_capacity;
    unit *units;
    unsigned unit_count;
    uint64_t *busy;
    unsigned busy_words;
    unsigned favoured, favour; /* random: the warp in favour, and of 256 choices how many keep it */
    uint64_t shunned;          /* random: of each word of `busy` the warps that run only when no other can */
    thread **yielded;
    unsigned yielded_count;
    unsigned idle_rounds;
    unsigned in_flight; /* bulk copies on their way */
    thread *current;    /* null in the hub */
    fiber hub;
    uint64_t start;
    long long clock;
    unsigned long long launches, blocks, switches, collectives, barriers;
};
extern machine simt;

/* simt.cpp */
void simt_settle(void);
thread *simt_pick(void);                                  /* null: the hub has to act, or nobody can run */
void simt_resume(thread *next, fiber *from, bool last); /* null: the hub */
uint64_t simt_random(void);
void simt_make_ready(thread *t);
void simt_wake_all(thread **sleepers);
void simt_suspend(wait_kind kind, site where); /* the running thread waits; returns when it has been made ready and picked */
void simt_sleep(thread **sleepers, wait_kind kind, unsigned what, site where);
void simt_fail(site where, const char *format, ...) __attribute__((format(printf, 2, 3))); /* does not return to a CUDA thread */
thread *simt_caller(const char *what, site where); /* the running thread; ends the program on the host */
void simt_fill(void *memory, int byte, size_t bytes); /* unseen by TSan */

/* simt_report.cpp */
void simt_report(thread *t, site where, const char *format, va_list arguments);
void simt_report_waiting(const char *what);

/* simt_collective.cpp */
void simt_lane_ended(thread *t);
void simt_barrier_ended(thread *t);
void simt_cluster_ended(thread *t);
const char *simt_op_name(unsigned op);

/* simt_async.cpp */
void simt_deliver_one(void);
void simt_async_begin(void);
void simt_async_end_thread(thread *t);
void simt_async_end_block(block *b);
void simt_async_drop(void);
unsigned simt_mbarrier_pending(unsigned number, long *tx, const void **address);

#endif
