/* simt.cpp: the executor's core: settings, the schedule, yields. simt_internal.h explains the tables; README.md the whole.
 *
 * Compile it without -fsanitize=thread, and with -DSIMT_TSAN=1 in a program that is linked with it.
 */
#include "simt_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simt.h"

machine simt = {};
const simt_position *simt_self;
dim3 simt_block_dim, simt_grid_dim;

/* ---- small things ---- */

uint64_t simt_random(void) /* splitmix64 */
{
    uint64_t z = simt.random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void simt_fill(void *memory, int byte, size_t bytes)
{
#if SIMT_TSAN
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
    memset(memory, byte, bytes);
#if SIMT_TSAN
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
#endif
}

void simt_settle(void) /* defaults and the environment, once */
{
    static bool done;
    if (done) return;
    done = true;
    simt.resident = 1;
    simt.multiprocessors = 4;
    simt.spin_limit = 10000;
    const char *text = getenv("SIMT_SCHEDULE");
    if (text) simt.schedule = !strcmp(text, "reverse") ? SIMT_REVERSE : !strcmp(text, "random") ? SIMT_RANDOM : SIMT_FORWARD;
    if ((text = getenv("SIMT_SEED"))) simt.seed = strtoull(text, nullptr, 0);
    if ((text = getenv("SIMT_BLOCKS")) && atoi(text) > 0) simt.resident = atoi(text);
    if ((text = getenv("SIMT_PREEMPT"))) simt.preempt = atof(text);
    simt.random = simt.seed;
    if (simt.schedule == SIMT_RANDOM) fprintf(stderr, "simt: random schedule, SIMT_SEED=%llu\n", simt.seed);
}

void simt_set_schedule(int schedule, unsigned long long seed)
{
    simt_settle();
    simt.schedule = schedule;
    simt.seed = simt.random = seed;
}
void simt_set_preempt(double probability) { simt_settle(), simt.preempt = probability; }
void simt_set_resident_blocks(int blocks) { simt_settle(), simt.resident = blocks < 1 ? 1 : blocks; }
void simt_set_sm_count(int multiprocessors) { simt_settle(), simt.multiprocessors = multiprocessors; }
void simt_set_cooperative_blocks(int blocks) { simt_settle(), simt.cooperative = blocks; }
void simt_set_stack_bytes(size_t bytes) { simt_settle(), simt.stack_bytes = (bytes + 4095) / 4096 * 4096; }
void simt_set_spin_limit(unsigned rounds) { simt_settle(), simt.spin_limit = rounds; }
int simt_multiprocessors(void) { return simt_settle(), simt.multiprocessors; }
int simt_cooperative_blocks(void) { return simt_settle(), simt.cooperative; }

struct simt_statistics simt_read_statistics(void)
{
    return {simt.launches, simt.blocks, simt.switches, simt.collectives, simt.barriers};
}

/* ---- who runs next ---- */

void simt_make_ready(thread *t)
{
    warp *w = t->group;
    unsigned number = t->home->slot * SIMT_WARPS + (unsigned)(w - t->home->warps);
    t->wait = RUNNING;
    w->ready |= 1u << t->lane;
    simt.busy[number >> 6] |= 1ull << (number & 63);
}

void simt_wake_all(thread **sleepers)
{
    for (thread *t = *sleepers; t;) {
        thread *next = t->next;
        simt_make_ready(t);
        t = next;
    }
    *sleepers = nullptr;
}

static bool busy_warp(unsigned *number) /* the warp that the schedule prefers; false if none has a thread that can run */
{
    unsigned words = simt.busy_words;
    if (simt.schedule == SIMT_REVERSE) {
        for (unsigned i = words; i-- > 0;) {
            if (simt.busy[i]) return *number = i * 64 + 63 - (unsigned)__builtin_clzll(simt.busy[i]), true;
        }
        return false;
    }
    if (simt.schedule == SIMT_RANDOM) {
        uint64_t dice = simt_random();
        unsigned last = simt.favoured;
        if (((simt.busy[last >> 6] & ~simt.shunned) >> (last & 63) & 1u) && (dice & 255) < simt.favour) return *number = last, true;
        unsigned turn = dice >> 8 & 63, first = (unsigned)(dice >> 32) % words;
        for (unsigned i = 0; i < (simt.shunned ? 2 : 1) * words; ++i) {
            unsigned at = (first + i) % words;
            uint64_t word = simt.busy[at] & (i < words ? ~simt.shunned : ~0ull);
            if (!word) continue;
            word = turn ? word >> turn | word << (64 - turn) : word;
            *number = simt.favoured = at * 64 + (((unsigned)__builtin_ctzll(word) + turn) & 63);
            return true;
        }
        return false;
    }
    for (unsigned i = 0; i < words; ++i) {
        if (simt.busy[i]) return *number = i * 64 + (unsigned)__builtin_ctzll(simt.busy[i]), true;
    }
    return false;
}

static thread *take(unsigned number) /* a ready lane of a busy warp, no longer marked ready */
{
    warp *w = &simt.slots[number / SIMT_WARPS]->warps[number % SIMT_WARPS];
    unsigned lane;
    if (simt.schedule == SIMT_REVERSE) {
        lane = 31 - (unsigned)__builtin_clz(w->ready);
    } else if (simt.schedule == SIMT_RANDOM) {
        unsigned turn = (unsigned)simt_random() & 31;
        lane = ((unsigned)__builtin_ctz(turn ? w->ready >> turn | w->ready << (32 - turn) : w->ready) + turn) & 31;
    } else {
        lane = (unsigned)__builtin_ctz(w->ready);
    }
    w->ready &= ~(1u << lane);
    if (!w->ready) simt.busy[number >> 6] &= ~(1ull << (number & 63));
    return &w->lanes[lane];
}

thread *simt_pick(void) /* null: the hub has to act, or nobody can run */
{
    for (;;) {
        unsigned number;
        if (simt.failed || simt.retire) return nullptr;
        if (simt.in_flight && simt.schedule == SIMT_RANDOM && simt_random() % 8 == 0) simt_deliver_one();
        if (busy_warp(&number)) return take(number);
        if (simt.in_flight) {
            simt_deliver_one();
        } else if (simt.yielded_count) {
            if (++simt.idle_rounds > simt.spin_limit) return nullptr;
            for (unsigned i = 0; i < simt.yielded_count; ++i) simt_make_ready(simt.yielded[i]);
            simt.yielded_count = 0;
        } else {
            return nullptr;
        }
    }
}

void simt_resume(thread *next, fiber *from, bool last)
{
    simt.current = next;
    simt_self = next ? &next->at : nullptr;
    if (next) next->since_switch = 0;
    ++simt.switches;
    fiber_switch(from, next ? &next->fiber : &simt.hub, last);
}

void simt_suspend(wait_kind kind, site where)
{
    thread *self = simt.current;
    if (!(self->group->ready >> self->lane & 1u)) self->wait = kind; /* else it was the last to arrive, and can go on */
    self->where = where;
    thread *next = simt_pick();
    if (next != self) simt_resume(next, &self->fiber, false);
}

void simt_sleep(thread **sleepers, wait_kind kind, unsigned what, site where)
{
    thread *self = simt.current;
    self->what = what;
    self->next = *sleepers;
    *sleepers = self;
    simt_suspend(kind, where);
}

thread *simt_caller(const char *what, site where)
{
    if (simt.current) return simt.current;
    fprintf(stderr, "simt: %s at %s:%d was called outside a kernel\n", what, where.file, where.line);
    abort();
}

void simt_fail(site where, const char *format, ...)
{
    thread *self = simt.current;
    va_list arguments;
    va_start(arguments, format);
    simt_report(self, where, format, arguments);
    va_end(arguments);
    simt.failed = true;
    if (self) simt_resume(nullptr, &self->fiber, false);
}

/* ---- yields ---- */

void simt_progress(void) { simt.idle_rounds = 0; }

void simt_yield(const char *file, int line)
{
    thread *self = simt.current;
    if (!self) return;
    self->since_switch = 0;
    if (simt.schedule == SIMT_RANDOM && (simt_random() & 1)) {
        simt_make_ready(self);
    } else {
        simt.yielded[simt.yielded_count++] = self;
    }
    simt_suspend(YIELDED, {file, line});
}

void simt_preempt(void)
{
    thread *self = simt.current;
    if (!self) return;
    /* Without the forced yield, one thread that polls with atomics would keep the processor for ever. */
    if (++self->since_switch > 1000 || (simt.preempt > 0 && (double)(simt_random() >> 11) * 0x1p-53 < simt.preempt)) {
        simt_yield("an atomic or volatile access", 0);
    }
}

long long simt_clock(void)
{
    simt_preempt();
    return simt.clock += 32;
}

void simt_fence(void)
{
    /* TSan does not model fences, so that all share one object: what came before a fence is ordered before what follows a later one. */
    static uint64_t fences;
    simt_preempt();
    SIMT_ACQUIRE(&fences);
    SIMT_RELEASE(&fences);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void simt_trap(const char *what, const char *file, int line)
{
    simt_caller(what, {file, line});
    simt_fail({file, line}, "%s", what);
    abort();
}

/* glibc's hook behind assert(): a failed assertion in a kernel is a report, on the host it is what it always was. */
extern "C" void __assert_fail(const char *expression, const char *file, unsigned line, const char *function) noexcept
{
    if (simt.current) simt_fail({file, (int)line}, "assertion failed in %s: %s", function, expression);
    fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function, expression);
    abort();
}
