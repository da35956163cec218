/* simt_launch.cpp: shared memory, blocks and launches: what the hub does. simt.cpp has the schedule.
 *
 * Stacks, shared memory and TSan fibers belong to a slot and are used again by its next block; starting a thread allocates nothing.
 */
#include "simt_launch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simt.h"
#include "simt_internal.h"

/* Bounds of the section that __shared__ puts variables into; absent when no source has one. */
extern char shared_begin[] __asm__("__start_simt_shared") __attribute__((weak));
extern char shared_end[] __asm__("__stop_simt_shared") __attribute__((weak));

static void *grow(void *memory, size_t bytes)
{
    void *result = realloc(memory, bytes);
    if (!result) abort();
    return result;
}

/* ---- shared memory ---- */

void *simt_dynamic_shared(void) { return simt_caller("simt_dynamic_shared", {"", 0})->home->arena; }

unsigned simt_is_shared(const void *address)
{
    const char *at = (const char *)address;
    for (unsigned i = 0; i < simt.slot_count; ++i) {
        if (at >= simt.slots[i]->arena && at < simt.slots[i]->arena + SIMT_MAX_SHARED) return 1;
    }
    return at >= shared_begin && at < shared_end;
}

static void open_arena(block *b)
{
#if SIMT_ASAN
    __asan_unpoison_memory_region(b->memory, SIMT_GUARD + SIMT_MAX_SHARED + SIMT_GUARD);
#endif
    simt_fill(b->memory, 0xc3, SIMT_GUARD);
    simt_fill(b->arena, 0xa5, simt.shared);
    simt_fill(b->arena + simt.shared, 0xc3, SIMT_GUARD);
#if SIMT_ASAN
    __asan_poison_memory_region(b->memory, SIMT_GUARD);
    __asan_poison_memory_region(b->arena + simt.shared, SIMT_MAX_SHARED - simt.shared + SIMT_GUARD);
#endif
}

static void close_arena(block *b)
{
#if SIMT_ASAN
    __asan_unpoison_memory_region(b->memory, SIMT_GUARD + SIMT_MAX_SHARED + SIMT_GUARD);
#endif
    for (int i = 0; i < SIMT_GUARD; ++i) {
        const simt_position *at = &b->threads[0].at;
        unsigned x = at->block_idx.x, y = at->block_idx.y, z = at->block_idx.z;
        if ((unsigned char)b->arena[simt.shared + i] != 0xc3) {
            return simt_fail({"", 0}, "block (%u,%u,%u) wrote past its %u bytes of dynamic shared memory, at offset %u", x, y, z,
                             simt.shared, simt.shared + i);
        }
        if ((unsigned char)b->memory[SIMT_GUARD - 1 - i] != 0xc3) {
            return simt_fail({"", 0}, "block (%u,%u,%u) wrote %d bytes before its dynamic shared memory", x, y, z, i + 1);
        }
    }
    simt_fill(b->arena, 0xa5, simt.shared); /* a cluster's other blocks must not read the memory of one that has exited */
#if SIMT_ASAN
    __asan_poison_memory_region(b->memory, SIMT_GUARD + SIMT_MAX_SHARED + SIMT_GUARD);
#endif
}

/* ---- blocks ---- */

static void end_block(block *b)
{
    simt_async_end_block(b);
    close_arena(b);
    if (--b->part_of->live_blocks == 0) simt.retire = true;
}

static void thread_entry(fiber_transfer from)
{
    thread *self = simt.current;
    fiber_landed(&self->fiber, from);
    self->home->begun = true;
    SIMT_ACQUIRE(&simt.start);
    SIMT_ACQUIRE(&self->home->part_of->order[self->home->part_of->generation & 1]);
    (*simt.body)();
    simt_async_end_thread(self);
    SIMT_RELEASE(&self->home->part_of->order[~self->home->part_of->generation & 1]);
    self->wait = FINISHED;
    self->group->live &= ~(1u << self->lane);
    --self->home->live;
    --self->home->part_of->live_threads;
    simt.idle_rounds = 0;
    simt_lane_ended(self);
    simt_barrier_ended(self);
    simt_cluster_ended(self);
    if (self->home->live == 0) end_block(self->home);
    simt_resume(simt_pick(), &self->fiber, true);
}

static void reserve_threads(block *b, unsigned threads)
{
#if SIMT_ASAN || SIMT_TSAN
    size_t bytes = simt.stack_bytes ? simt.stack_bytes : 256 << 10;
#else
    size_t bytes = simt.stack_bytes ? simt.stack_bytes : 64 << 10;
#endif
    unsigned padded = (threads + 31) / 32 * 32, old = b->capacity;
    if (padded <= old && bytes == b->stack_bytes) return;
    if (padded < old) padded = old;
#if SIMT_ASAN
    /* munmap leaves ASan's record of the last frames, and the next mapping of these addresses would be reported for them. */
    if (b->stacks) __asan_unpoison_memory_region(b->stacks, old * (b->stack_bytes + 4096));
#endif
    if (b->stacks) munmap(b->stacks, old * (b->stack_bytes + 4096));
    b->stacks = (char *)mmap(nullptr, padded * (bytes + 4096), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (b->stacks == MAP_FAILED) abort();
    b->threads = (thread *)grow(b->threads, padded * sizeof(thread));
    memset((void *)(b->threads + old), 0, (padded - old) * sizeof(thread));
    b->capacity = padded;
    b->stack_bytes = bytes;
    for (unsigned i = 0; i < padded; ++i) {
        mprotect(b->stacks + i * (bytes + 4096), 4096, PROT_NONE);
        b->threads[i].fiber.stack = b->stacks + i * (bytes + 4096) + 4096;
        b->threads[i].fiber.bytes = bytes;
    }
}

static void start_block(block *b, unit *u, unsigned rank, uint3 index)
{
    dim3 size = simt.threads;
    b->rank = rank;
    b->part_of = u;
    b->live = simt.block_threads;
    b->begun = false;
    memset(b->warps, 0, sizeof b->warps);
    memset(b->barriers, 0, sizeof b->barriers);
    open_arena(b);
    ++simt.blocks;
    uint3 at = {0, 0, 0};
    for (unsigned i = 0; i < simt.block_threads; ++i) {
        thread *t = &b->threads[i];
        fiber keep = t->fiber;
        *t = thread{};
        t->fiber = keep;
        t->at = {at, index};
        t->home = b;
        t->index = i;
        t->lane = i % 32;
        t->group = &b->warps[i / 32];
        t->group->lanes = &b->threads[i / 32 * 32];
        t->group->live |= 1u << t->lane;
        size_t skew = i % 32 * 128;
#if SIMT_ASAN
        /* The frames below which a thread left for the last time never returned: their record is still there. */
        __asan_unpoison_memory_region((const char *)t->fiber.stack + t->fiber.bytes - skew - 2048, 2048);
#endif
        fiber_prepare(&t->fiber, thread_entry, skew);
#if SIMT_TSAN
        if (!t->fiber.tsan) t->fiber.tsan = __tsan_create_fiber(0);
#endif
        simt_make_ready(t);
        if (++at.x == size.x) at.x = 0, ++at.y;
        if (at.y == size.y) at.y = 0, ++at.z;
    }
}

static void start_unit(unit *u, unsigned number)
{
    dim3 c = simt.cluster;
    unsigned wide = simt.grid.x / c.x, high = simt.grid.y / c.y;
    unsigned x = number % wide * c.x, y = number / wide % high * c.y, z = number / wide / high * c.z;
    u->active = true;
    ++u->generation;
    u->live_blocks = simt.cluster_size;
    u->live_threads = simt.cluster_size * simt.block_threads;
    u->arrived = u->phase = 0;
    u->sleepers = nullptr;
    if (simt.slot_count == 1 && shared_begin) simt_fill(shared_begin, 0xa5, (size_t)(shared_end - shared_begin));
    for (unsigned r = 0; r < simt.cluster_size; ++r) {
        uint3 index = {x + r % c.x, y + r / c.x % c.y, z + r / c.x / c.y};
        start_block(simt.slots[u->first_slot + r], u, r, index);
    }
}

/* ---- launches ---- */

static void reserve_slots(unsigned slots)
{
    if (slots > simt.slot_capacity) {
        simt.slots = (block **)grow(simt.slots, slots * sizeof *simt.slots);
        for (unsigned i = simt.slot_capacity; i < slots; ++i) {
            block *b = simt.slots[i] = (block *)calloc(1, sizeof(block));
            b->slot = i;
            b->memory = (char *)aligned_alloc(1024, SIMT_GUARD + SIMT_MAX_SHARED + SIMT_GUARD);
            if (!b->memory) abort();
            b->arena = b->memory + SIMT_GUARD;
        }
        simt.slot_capacity = slots;
    }
    simt.slot_count = slots;
    for (unsigned i = 0; i < slots; ++i) reserve_threads(simt.slots[i], simt.block_threads);
    simt.unit_count = slots / simt.cluster_size;
    simt.units = (unit *)grow(simt.units, simt.unit_count * sizeof(unit));
    memset(simt.units, 0, simt.unit_count * sizeof(unit));
    for (unsigned i = 0; i < simt.unit_count; ++i) simt.units[i].first_slot = i * simt.cluster_size;
    simt.busy_words = (slots + 1) / 2;
    simt.busy = (uint64_t *)grow(simt.busy, simt.busy_words * sizeof(uint64_t));
    memset(simt.busy, 0, simt.busy_words * sizeof(uint64_t));
    simt.yielded = (thread **)grow(simt.yielded, slots * simt.block_threads * sizeof(thread *));
    simt.yielded_count = 0;
}

static unsigned *unit_order(unsigned units) /* the order in which units start */
{
    unsigned *order = (unsigned *)grow(nullptr, units * sizeof *order);
    for (unsigned i = 0; i < units; ++i) order[i] = simt.schedule == SIMT_REVERSE ? units - 1 - i : i;
    for (unsigned i = units; simt.schedule == SIMT_RANDOM && i > 1; --i) {
        unsigned j = (unsigned)(simt_random() % i), keep = order[i - 1];
        order[i - 1] = order[j];
        order[j] = keep;
    }
    return order;
}

static void run_units(const unsigned *order, unsigned units)
{
    unsigned started = 0, live = 0;
    simt.retire = true;
    for (;;) {
        if (simt.retire && !simt.failed) {
            simt.retire = false;
            for (unsigned i = 0; i < simt.unit_count; ++i) {
                unit *u = &simt.units[i];
                if (u->active && u->live_blocks == 0) u->active = false, --live;
                if (!u->active && started < units) start_unit(u, order[started++]), ++live;
            }
        }
        thread *next = simt_pick();
        if (next) {
            simt_resume(next, &simt.hub, false);
        } else if (simt.failed || live == 0) {
            return;
        } else if (!simt.retire) {
            simt_report_waiting(simt.yielded_count ? "livelock: threads only yield" : "deadlock: no thread can run");
            simt.failed = true;
            return;
        }
    }
}

static void check_static_shared(void) /* after a launch with several resident blocks, which would have shared these variables */
{
    for (const char *at = shared_begin; at && at < shared_end; ++at) {
        if ((unsigned char)*at != 0xa5) {
            return simt_fail({"", 0}, "a static __shared__ variable was used with %u resident blocks: use dynamic shared memory",
                             simt.slot_count);
        }
    }
}

static void clean_fibers(void) /* of a launch abandoned in mid-call: the sanitizers' records of their frames are of no more use */
{
    for (unsigned i = 0; i < simt.slot_count; ++i) {
        for (unsigned j = 0; j < simt.slots[i]->capacity; ++j) {
            fiber *f = &simt.slots[i]->threads[j].fiber;
#if SIMT_ASAN
            __asan_unpoison_memory_region(f->stack, f->bytes);
#endif
#if SIMT_TSAN
            if (f->tsan) __tsan_destroy_fiber(f->tsan);
#endif
            f->tsan = nullptr;
        }
    }
}

bool simt_run(const simt_launch_shape *shape, const std::function<void()> &body)
{
    simt_settle();
    unsigned units = shape->grid.x * shape->grid.y * shape->grid.z;
    simt.cluster = shape->cluster;
    simt.cluster_size = shape->cluster.x * shape->cluster.y * shape->cluster.z;
    units /= simt.cluster_size;
    unsigned resident = shape->cooperative ? units : ((unsigned)simt.resident + simt.cluster_size - 1) / simt.cluster_size;
    if (resident > units) resident = units;
    simt.grid = simt_grid_dim = shape->grid;
    simt.threads = simt_block_dim = shape->threads;
    simt.block_threads = shape->threads.x * shape->threads.y * shape->threads.z;
    simt.warps = (simt.block_threads + 31) / 32;
    simt.shared = (unsigned)shape->shared;
    simt.body = &body;
    simt.failed = false;
    simt.idle_rounds = 0;
    ++simt.launches;
    static const unsigned favours[] = {0, 224, 255, 256};
    simt.favoured = 0;
    simt.favour = simt.schedule == SIMT_RANDOM ? favours[simt_random() & 3] : 0;
    simt.shunned = 0;
    if (simt.schedule == SIMT_RANDOM && simt_random() % 3 == 0) {
        uint64_t of_a_block = 1ull << simt_random() % simt.warps;
        simt.shunned = of_a_block | of_a_block << SIMT_WARPS;
    }
    reserve_slots(resident * simt.cluster_size);
    unsigned *order = unit_order(units);
    bool several = simt.slot_count > 1 && shared_begin;
    if (several) simt_fill(shared_begin, 0xa5, (size_t)(shared_end - shared_begin));
#if SIMT_TSAN
    simt.hub.tsan = __tsan_get_current_fiber();
#endif
    SIMT_RELEASE(&simt.start);
    simt_async_begin();
    simt.running = true;
    run_units(order, units);
    simt.running = false;
    for (unsigned i = 0; i < simt.unit_count; ++i) {
        SIMT_ACQUIRE(&simt.units[i].order[0]);
        SIMT_ACQUIRE(&simt.units[i].order[1]);
    }
    if (several && !simt.failed) check_static_shared();
    simt_async_drop();
    free(order);
    if (simt.failed) clean_fibers();
    return !simt.failed;
}
