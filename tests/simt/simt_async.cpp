/* simt_async.cpp: mbarriers, bulk copies that complete on them, and cp.async.
 *
 * The word in user memory holds only a number with a tag: the state is in a table here, and an mbarrier that was never initialised, or
 * whose memory was used for something else, is recognised. Bulk copies are made by one TSan fiber of their own, the "copy engine", which
 * has acquired the issuer's clock and releases to the mbarrier: TSan reports a reader that did not wait, and a copy over data that is
 * still being read.
 */
#include <stdlib.h>
#include <string.h>

#include "simt.h"
#include "simt_internal.h"

/* ---- mbarriers ---- */

enum { CHUNK = 256, CHUNKS = 4096, MAX_IN_FLIGHT = 4096 };
static const unsigned long long TAG = 0x6d42617200000000u;

struct mbarrier {
    unsigned long long *address; /* null while the number is free */
    unsigned count, pending, phase;
    long tx;
    thread *sleepers;
    unsigned next;               /* in the block's list or the free list; a number plus 1 */
    uint64_t sync[2];
};
static mbarrier *chunks[CHUNKS]; /* never moved or freed, so that TSan sees no reuse */
static unsigned used, free_list;

static mbarrier *at(unsigned number) { return &chunks[number / CHUNK][number % CHUNK]; }

static mbarrier *find(unsigned long long *bar, bool write, site where)
{
    simt_caller("an mbarrier operation", where);
    if ((uintptr_t)bar % 8) simt_fail(where, "mbarrier is not 8-byte aligned");
#if SIMT_TSAN
    if (write) __tsan_write8(bar);
    else __tsan_read8(bar);
#else
    (void)write;
#endif
    unsigned number = (unsigned)*bar;
    if (*bar >> 32 != TAG >> 32 || number >= used || at(number)->address != bar) {
        simt_fail(where, "not an mbarrier: the word at this address is 0x%016llx (not initialised, or overwritten)", *bar);
    }
    return at(number);
}

unsigned simt_mbarrier_pending(unsigned number, long *tx, const void **address)
{
    *tx = at(number)->tx;
    *address = at(number)->address;
    return at(number)->pending;
}

void simt_mbarrier_init(unsigned long long *bar, unsigned count, const char *file, int line)
{
    site where = {file, line};
    thread *self = simt_caller("simt_mbarrier_init", where);
    if ((uintptr_t)bar % 8) simt_fail(where, "mbarrier is not 8-byte aligned");
    if (count < 1 || count > (1u << 20) - 1) simt_fail(where, "mbarrier for %u arrivals", count);
    if (*bar >> 32 == TAG >> 32 && (unsigned)*bar < used && at((unsigned)*bar)->address == bar) {
        simt_fail(where, "mbarrier is initialised twice without simt_mbarrier_inval");
    }
#if SIMT_TSAN
    __tsan_write8(bar);
#endif
    unsigned number = free_list ? free_list - 1 : used++;
    if (number / CHUNK >= CHUNKS) abort();
    if (!chunks[number / CHUNK] && !(chunks[number / CHUNK] = (mbarrier *)calloc(CHUNK, sizeof(mbarrier)))) abort();
    mbarrier *m = at(number);
    if (free_list) free_list = m->next;
    m->address = bar;
    m->count = m->pending = count;
    m->phase = 0;
    m->tx = 0;
    m->sleepers = nullptr;
    m->next = self->home->mbarriers;
    self->home->mbarriers = number + 1;
    *bar = TAG | number;
}

void simt_mbarrier_inval(unsigned long long *bar, const char *file, int line)
{
    mbarrier *m = find(bar, true, {file, line});
    if (m->sleepers) simt_fail({file, line}, "mbarrier is invalidated while threads wait at it");
    m->address = nullptr; /* the number stays in the block's list until the block ends */
    *bar = 0xa5a5a5a5a5a5a5a5u;
}

static void complete_phase(mbarrier *m)
{
    simt.idle_rounds = 0;
    if (m->pending || m->tx) return;
    m->pending = m->count;
    ++m->phase;
    ++simt.barriers;
    simt_wake_all(&m->sleepers);
}

static void arrive(mbarrier *m, unsigned bytes, site where)
{
    if (m->pending == 0) simt_fail(where, "more than %u arrivals in one phase of the mbarrier", m->count);
    SIMT_RELEASE(&m->sync[m->phase & 1]);
    m->tx += bytes;
    --m->pending;
    complete_phase(m);
}

void simt_mbarrier_arrive(unsigned long long *bar, const char *file, int line) { arrive(find(bar, false, {file, line}), 0, {file, line}); }

void simt_mbarrier_arrive_expect_tx(unsigned long long *bar, unsigned bytes, const char *file, int line)
{
    arrive(find(bar, false, {file, line}), bytes, {file, line});
}

void simt_mbarrier_wait(unsigned long long *bar, unsigned parity, const char *file, int line)
{
    mbarrier *m = find(bar, false, {file, line});
    while ((m->phase & 1) == (parity & 1)) simt_sleep(&m->sleepers, IN_MBARRIER, (unsigned)*bar, {file, line});
    SIMT_ACQUIRE(&m->sync[parity & 1]);
}

bool simt_mbarrier_test(unsigned long long *bar, unsigned parity, const char *file, int line)
{
    mbarrier *m = find(bar, false, {file, line});
    if ((m->phase & 1) == (parity & 1)) simt_yield(file, line);
    if ((m->phase & 1) == (parity & 1)) return false;
    SIMT_ACQUIRE(&m->sync[parity & 1]);
    return true;
}

/* ---- bulk copies ---- */

struct bulk_copy {
    char *dst;
    const char *src;
    unsigned bytes;
    unsigned long long *bar;
    unsigned long long number; /* order of issue */
    block *home;
    site where;
};
static bulk_copy flying[MAX_IN_FLIGHT];
static unsigned long long issued;

#if SIMT_TSAN
static void *engine; /* the copy engine's fiber */
static uint64_t to_engine;
#endif

/* Copies, or poisons when src is null, as the copy engine. */
static void engine_write(char *dst, const char *src, unsigned bytes, uint64_t *release)
{
#if SIMT_TSAN
    void *here = __tsan_get_current_fiber();
    if (!release) __tsan_release(&to_engine); /* at the issue: what the issuer has seen happens before the copy */
    __tsan_switch_to_fiber(engine, 1);
    __tsan_acquire(&to_engine);
#endif
    if (src) memcpy(dst, src, bytes);
    else memset(dst, 0xa5, bytes);
#if SIMT_TSAN
    if (release) __tsan_release(release);
    __tsan_switch_to_fiber(here, 1);
#else
    (void)release;
#endif
}

void simt_bulk_copy(void *shared_dst, const void *src, unsigned bytes, unsigned long long *bar, const char *file, int line)
{
    site where = {file, line};
    thread *self = simt_caller("simt_bulk_copy", where);
    find(bar, false, where);
    if ((uintptr_t)shared_dst % 16 || (uintptr_t)src % 16 || bytes % 16 || bytes == 0) {
        simt_fail(where, "bulk copy: destination %p, source %p and size %u must be multiples of 16", shared_dst, src, bytes);
    }
    if (!simt_is_shared(shared_dst)) simt_fail(where, "bulk copy: the destination is not in shared memory");
#if SIMT_ASAN
    void *bad = __asan_region_is_poisoned((void *)(uintptr_t)src, bytes);
    if (bad) simt_fail(where, "bulk copy reads beyond its source, at byte %ld of %u", (long)((const char *)bad - (const char *)src), bytes);
    bad = __asan_region_is_poisoned(shared_dst, bytes);
    if (bad) simt_fail(where, "bulk copy writes beyond shared memory, at byte %ld of %u", (long)((char *)bad - (char *)shared_dst), bytes);
#endif
    if (simt.in_flight == MAX_IN_FLIGHT) simt_fail(where, "more than %d bulk copies in flight", MAX_IN_FLIGHT);
    engine_write((char *)shared_dst, nullptr, bytes, nullptr);
    flying[simt.in_flight++] = {(char *)shared_dst, (const char *)src, bytes, bar, issued++, self->home, where};
}

void simt_deliver_one(void) /* forward: the oldest, reverse: the youngest, random: any */
{
    unsigned chosen = simt.schedule == SIMT_RANDOM ? (unsigned)simt_random() % simt.in_flight : 0;
    for (unsigned i = 1; simt.schedule != SIMT_RANDOM && i < simt.in_flight; ++i) {
        if ((flying[i].number < flying[chosen].number) == (simt.schedule == SIMT_FORWARD)) chosen = i;
    }
    bulk_copy c = flying[chosen];
    flying[chosen] = flying[--simt.in_flight];
    unsigned number = (unsigned)*c.bar;
    if (*c.bar >> 32 != TAG >> 32 || number >= used || at(number)->address != c.bar) {
        return simt_fail(c.where, "the mbarrier of this bulk copy is gone before the copy has completed");
    }
    mbarrier *m = at(number);
    engine_write(c.dst, c.src, c.bytes, &m->sync[m->phase & 1]);
    m->tx -= c.bytes;
    complete_phase(m);
}

/* ---- cp.async ---- */

struct async_copy {
    char *dst;
    const char *src;
    unsigned bytes, group;
    async_copy *next;
};
static async_copy *pool;

void simt_cp_async(void *shared_dst, const void *src, unsigned bytes, const char *file, int line)
{
    site where = {file, line};
    thread *self = simt_caller("simt_cp_async", where);
    if (bytes != 4 && bytes != 8 && bytes != 16) simt_fail(where, "cp.async of %u bytes", bytes);
    if ((uintptr_t)shared_dst % bytes || (uintptr_t)src % bytes) simt_fail(where, "cp.async of %u bytes is misaligned", bytes);
    if (!simt_is_shared(shared_dst)) simt_fail(where, "cp.async: the destination is not in shared memory");
    if (!pool) {
        pool = (async_copy *)calloc(CHUNK, sizeof(async_copy));
        if (!pool) abort();
        for (int i = 0; i + 1 < CHUNK; ++i) pool[i].next = &pool[i + 1];
    }
    async_copy *c = pool, **end = &self->copies;
    pool = c->next;
    *c = {(char *)shared_dst, (const char *)src, bytes, self->groups, nullptr};
    while (*end) end = &(*end)->next;
    *end = c;
    memset(shared_dst, 0xa5, bytes);
}

void simt_cp_async_commit(void) { ++simt_caller("simt_cp_async_commit", {"", 0})->groups; }

void simt_cp_async_wait(unsigned groups_left)
{
    thread *self = simt_caller("simt_cp_async_wait", {"", 0});
    while (self->copies && self->copies->group + groups_left < self->groups) {
        async_copy *c = self->copies;
        memcpy(c->dst, c->src, c->bytes);
        self->copies = c->next;
        c->next = pool;
        pool = c;
    }
}

/* ---- life of threads, blocks, launches ---- */

void simt_async_end_thread(thread *t)
{
    if (t->copies) simt_fail({"", 0}, "exits without having waited for its cp.async");
}

void simt_async_end_block(block *b)
{
    for (unsigned i = 0; i < simt.in_flight; ++i) {
        if (flying[i].home == b) simt_fail(flying[i].where, "the block exits while this bulk copy is in flight");
    }
    for (unsigned number = b->mbarriers; number;) {
        mbarrier *m = at(number - 1);
        unsigned next = m->next;
        m->address = nullptr;
        m->next = free_list;
        free_list = number;
        number = next;
    }
    b->mbarriers = 0;
}

void simt_async_begin(void)
{
#if SIMT_TSAN
    if (!engine) engine = __tsan_create_fiber(0);
    __tsan_release(&to_engine);
#endif
}

void simt_async_drop(void) /* after the launch, also an abandoned one */
{
    simt.in_flight = 0;
    for (unsigned i = 0; i < simt.slot_count; ++i) simt_async_end_block(simt.slots[i]);
}
