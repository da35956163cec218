/* topkit/signal.cuh: one group tells another that something is ready, without either waiting for the whole block.
 *
 * A signal is an mbarrier in shared memory. Producers arrive, consumers wait; each completed phase flips a parity, so a signal serves a
 * ring buffer for ever: use n of a slot (n = 0, 1, 2, ..) waits for parity n & 1.
 *
 *   scope         thread: every function is called by single threads or by all threads of a warp alike
 *   storage       8 bytes of shared memory, 8-byte aligned; init once by one thread, then sync the block before the first use
 *   sync          arrive releases and wait acquires: what was written before the arrivals is seen after the wait
 *   determinism   yes
 *   cost          one shared-memory operation an arrival; a wait that finds the phase complete costs one as well
 *
 * Worked numbers: init(s, 2); two arrivals complete use 0; wait(s, 0) returns then; the next two arrivals complete use 1.
 */
#ifndef TOPKIT_SIGNAL_CUH
#define TOPKIT_SIGNAL_CUH

#include "topkit/ptx.cuh"

typedef struct topkit_signal {
    unsigned long long bits;
} topkit_signal;

/* `arrivals` complete a phase. */
TOPKIT_FN void topkit_signal_init(topkit_signal *s, unsigned arrivals) { topkit_mbarrier_init(&s->bits, arrivals); }
TOPKIT_FN void topkit_signal_arrive(topkit_signal *s) { topkit_mbarrier_arrive(&s->bits); }
/* Whether use n is complete; asked no later than use n + 1 completes, for a parity can not tell n from n + 2. Never blocks, or (_for) may
 * suspend the thread for about that many nanoseconds before it says no. */
TOPKIT_FN bool topkit_signal_test(topkit_signal *s, unsigned use) { return topkit_mbarrier_test(&s->bits, use & 1); }
TOPKIT_FN bool topkit_signal_test_for(topkit_signal *s, unsigned use, unsigned nanoseconds) {
    return topkit_mbarrier_test_for(&s->bits, use & 1, nanoseconds);
}
TOPKIT_FN void topkit_signal_wait(topkit_signal *s, unsigned use) { topkit_mbarrier_wait(&s->bits, use & 1); }

#endif
