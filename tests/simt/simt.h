/* simt.h: host-side control of the CPU SIMT executor: schedules, limits, and the list of failures.
 *
 *   for (int schedule = SIMT_FORWARD; schedule <= SIMT_RANDOM; ++schedule) {
 *       simt_set_schedule(schedule, 1);
 *       launch();                                          through cudaLaunchKernelEx, as on a GPU
 *       REQUIRE(simt_failures() == 0);
 *   }
 *
 * An error in device code (a deadlock, a wrong mask, a write past shared memory ...) is printed to stderr and added to the list of
 * failures; the launch is abandoned where it stands and returns cudaErrorLaunchFailure. Nothing is thrown, and no test macro runs
 * inside a kernel.
 *
 * Environment, read once at the first use: SIMT_SCHEDULE=forward|reverse|random, SIMT_SEED=n, SIMT_BLOCKS=n, SIMT_PREEMPT=p.
 * The executor is used from one host thread.
 */
#ifndef SIMT_H
#define SIMT_H

#include <stddef.h>

enum {
    SIMT_FORWARD = 0, /* of all threads that can run, the lowest runs, until it waits; blocks ascend */
    SIMT_REVERSE = 1, /* the highest; blocks descend */
    SIMT_RANDOM = 2   /* a random one; a launch draws how long one warp is favoured, so that warps also drift far apart, and may
                         draw one of a block that runs only when no other can */
};

void simt_set_schedule(int schedule, unsigned long long seed); /* restarts the random sequence */
void simt_set_preempt(double probability);                     /* chance that a thread yields at an atomic or simt_preempt(); default 0 */
void simt_set_resident_blocks(int blocks);                     /* blocks that interleave; default 1; clusters are always whole */
void simt_set_sm_count(int multiprocessors);                   /* what the device attributes say; default 4 */
void simt_set_cooperative_blocks(int blocks);                  /* of a cooperative launch at most; default 0, as many as fit */
void simt_set_stack_bytes(size_t bytes);                       /* stack of a CUDA thread; default 64 KiB, 256 KiB under a sanitizer */
void simt_set_spin_limit(unsigned rounds);                     /* rounds of nothing but yields that count as livelock; default 10000 */

int simt_failures(void);               /* failures since the last clear */
const char *simt_failure(int index);   /* text of one, valid until the next clear */
void simt_clear_failures(void);

/* How often a kernel's limit of dynamic shared memory was lowered, which another host thread's launch may have relied on. */
unsigned simt_shared_limits_lowered(void);

struct simt_statistics {
    unsigned long long launches, blocks, switches, collectives, barriers; /* collectives and barriers that completed */
};
struct simt_statistics simt_read_statistics(void); /* since the program began */

#endif
