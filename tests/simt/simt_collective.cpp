/* simt_collective.cpp: warp collectives, block and named barriers, the cluster barrier, and the checks of their use.
 *
 * A warp collective completes when the last lane of its mask arrives: that lane computes the results of all and makes them ready.
 * For TSan a barrier, a named barrier, a cluster barrier and __syncwarp order memory; shuffles, votes, matches and reductions do not, as in
 * CUDA. Sync objects alternate with the barrier's phase, since a slow thread must not acquire what a fast one released a phase later.
 */
#include <string.h>

#include "simt.h"
#include "simt_internal.h"

#ifndef SIMT_TSAN
#define SIMT_TSAN 0
#endif

const char *simt_op_name(unsigned op)
{
    static const char *const names[] = {"__syncwarp", "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync",
        "__ballot_sync", "__any_sync", "__all_sync", "__match_any_sync", "__match_all_sync", "__reduce_add_sync", "__reduce_min_sync",
        "__reduce_max_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync"};
    return names[op];
}

static bool same_site(site a, site b) { return a.line == b.line && (a.file == b.file || !strcmp(a.file, b.file)); }

/* ---- warp ---- */

static int shuffle_source(simt_op op, int lane, int argument, int width)
{
    int first = lane & ~(width - 1), last = first + width - 1, source = lane;
    switch (op) {
    case SIMT_SHFL: return first + (argument & (width - 1));
    case SIMT_SHFL_UP: source = (unsigned)argument > (unsigned)(lane - first) ? lane : lane - argument; break;
    case SIMT_SHFL_DOWN: source = (unsigned)argument > (unsigned)(last - lane) ? lane : lane + argument; break;
    case SIMT_SHFL_XOR: source = (lane ^ argument) > last ? lane : lane ^ argument; break; /* an earlier segment may be read, in CUDA too */
    default: break;
    }
    return source & 31;
}

static uint64_t fold(const warp *w, unsigned mask, unsigned op)
{
    uint32_t all = (uint32_t)w->lanes[__builtin_ctz(mask)].value;
    for (unsigned rest = mask & (mask - 1); rest; rest &= rest - 1) {
        uint32_t v = (uint32_t)w->lanes[__builtin_ctz(rest)].value;
        switch (op) {
        case SIMT_REDUCE_ADD: all += v; break;
        case SIMT_REDUCE_MIN: all = v < all ? v : all; break;
        case SIMT_REDUCE_MAX: all = v > all ? v : all; break;
        case SIMT_REDUCE_MIN_SIGNED: all = (int32_t)v < (int32_t)all ? v : all; break;
        case SIMT_REDUCE_MAX_SIGNED: all = (int32_t)v > (int32_t)all ? v : all; break;
        case SIMT_REDUCE_AND: all &= v; break;
        case SIMT_REDUCE_OR: all |= v; break;
        default: all ^= v; break;
        }
    }
    return all;
}

static void match_any(warp *w, unsigned mask)
{
    for (unsigned rest = mask; rest;) {
        uint64_t value = w->lanes[__builtin_ctz(rest)].value;
        unsigned same = 0;
        for (unsigned m = rest; m; m &= m - 1) {
            unsigned lane = (unsigned)__builtin_ctz(m);
            if (w->lanes[lane].value == value) same |= 1u << lane;
        }
        for (unsigned m = same; m; m &= m - 1) w->lanes[__builtin_ctz(m)].result = same;
        rest &= ~same;
    }
}

static void complete(warp *w, unsigned mask, unsigned op)
{
    uint64_t all = 0;
    thread *first = &w->lanes[__builtin_ctz(mask)];
    switch (op) {
    case SIMT_SYNCWARP: break;
    case SIMT_SHFL: case SIMT_SHFL_UP: case SIMT_SHFL_DOWN: case SIMT_SHFL_XOR:
        for (unsigned m = mask; m; m &= m - 1) {
            thread *t = &w->lanes[__builtin_ctz(m)];
            t->result = w->lanes[t->source].value;
        }
        break;
    case SIMT_MATCH_ANY: match_any(w, mask); break;
    case SIMT_MATCH_ALL:
        all = mask;
        for (unsigned m = mask; m; m &= m - 1) all = w->lanes[__builtin_ctz(m)].value == first->value ? all : 0;
        break;
    case SIMT_BALLOT: case SIMT_ANY: case SIMT_ALL:
        for (unsigned m = mask; m; m &= m - 1) all |= w->lanes[__builtin_ctz(m)].value << __builtin_ctz(m);
        if (op == SIMT_ANY) all = all != 0;
        if (op == SIMT_ALL) all = all == mask;
        break;
    default: all = fold(w, mask, op); break;
    }
    bool own = op == SIMT_MATCH_ANY || (op >= SIMT_SHFL && op <= SIMT_SHFL_XOR); /* each lane has a result of its own */
    for (unsigned m = mask; m; m &= m - 1) {
        thread *t = &w->lanes[__builtin_ctz(m)];
        if (!own) t->result = all;
        simt_make_ready(t);
    }
    w->waiting &= ~mask;
    simt.idle_rounds = 0;
    ++simt.collectives;
}

/* All lanes of the mask wait in some collective: true if it is the same one. */
static bool together(warp *w, unsigned mask, const thread *self)
{
    for (unsigned m = mask; m; m &= m - 1) {
        const thread *t = &w->lanes[__builtin_ctz(m)];
        if (t->mask != mask) return false; /* may still come here, after the other lanes of its mask */
        if (t->what != self->what) {
            simt_fail(self->where, "%s, but lane %u of the same mask 0x%08x is in %s at %s:%d", simt_op_name(self->what), t->lane, mask,
                      simt_op_name(t->what), t->where.file, t->where.line);
        }
        if (t->what != SIMT_SYNCWARP && !same_site(t->where, self->where)) {
            simt_fail(self->where, "%s in divergent code: lane %u of the same mask 0x%08x calls it at %s:%d", simt_op_name(self->what),
                      t->lane, mask, t->where.file, t->where.line);
        }
    }
    return true;
}

uint64_t simt_collective(simt_op op, unsigned mask, uint64_t value, int argument, int width, const char *file, int line)
{
    site where = {file, line};
    thread *self = simt_caller(simt_op_name(op), where);
    warp *w = self->group;
    unsigned bit = 1u << self->lane;
    if (!(mask & bit)) simt_fail(where, "%s: caller is not in its own mask 0x%08x", simt_op_name(op), mask);
    if (mask & ~w->live) {
        simt_fail(where, "%s: lanes 0x%08x of the mask 0x%08x have exited or do not exist", simt_op_name(op), mask & ~w->live, mask);
    }
    if (op >= SIMT_SHFL && op <= SIMT_SHFL_XOR) {
        if (width < 1 || width > 32 || (width & (width - 1))) simt_fail(where, "%s: width %d", simt_op_name(op), width);
        self->source = shuffle_source(op, (int)self->lane, argument, width);
        if (!(mask >> self->source & 1u)) {
            simt_fail(where, "%s: reads lane %d, which is not in the mask 0x%08x", simt_op_name(op), self->source, mask);
        }
    }
    self->what = op;
    self->mask = mask;
    self->value = value;
    self->where = where;
    self->wait = IN_WARP;
    if (SIMT_TSAN && op == SIMT_SYNCWARP) { /* share the object of the lanes that are already here */
        unsigned ring = ~0u;
        for (unsigned m = mask & w->waiting; m; m &= m - 1) {
            const thread *t = &w->lanes[__builtin_ctz(m)];
            if (t->what == SIMT_SYNCWARP && t->mask == mask) ring = t->ring;
        }
        self->ring = ring != ~0u ? ring : w->ring++ % 8;
        SIMT_RELEASE(&w->sync[self->ring]);
    }
    w->waiting |= bit;
    if ((w->waiting & mask) == mask && together(w, mask, self)) complete(w, mask, op);
    unsigned ring = self->ring;
    simt_suspend(IN_WARP, where);
    if (SIMT_TSAN && op == SIMT_SYNCWARP) SIMT_ACQUIRE(&w->sync[ring]);
    return self->result;
}

void simt_lane_ended(thread *t)
{
    for (unsigned m = t->group->waiting; m; m &= m - 1) {
        const thread *other = &t->group->lanes[__builtin_ctz(m)];
        if (other->mask >> t->lane & 1u) {
            simt_fail({"", 0}, "exited, but lane %u waits for it in %s of mask 0x%08x at %s:%d", other->lane, simt_op_name(other->what),
                      other->mask, other->where.file, other->where.line);
        }
    }
}

unsigned simt_active_mask(void)
{
    thread *self = simt_caller("__activemask", {"", 0});
    unsigned self_bit = 1u << self->lane;
    return simt.schedule == SIMT_RANDOM ? ((unsigned)simt_random() & self->group->ready) | self_bit : self_bit;
}

/* ---- block and named barriers ---- */

static void release_barrier(block *home, barrier *b, unsigned id)
{
    for (unsigned w = 0; w < simt.warps; ++w) {
        unsigned live = home->warps[w].live;
        if ((b->who[w] & live) && (b->who[w] & live) != live) {
            simt_fail(b->where, "barrier %u completed with only lanes 0x%08x of warp %u: a barrier takes whole warps", id, b->who[w], w);
        }
    }
    b->result[b->phase & 1] = b->kind == SIMT_BARRIER_AND  ? b->count == b->arrived
                              : b->kind == SIMT_BARRIER_OR ? b->count != 0
                                                           : (int)b->count;
    b->arrived = b->count = 0;
    ++b->phase;
    simt_fill(b->who, 0, simt.warps * sizeof b->who[0]);
    simt_wake_all(&b->sleepers);
    simt.idle_rounds = 0;
    ++simt.barriers;
}

static int arrive(unsigned id, unsigned threads, simt_barrier_kind kind, int predicate, bool wait, site where)
{
    thread *self = simt_caller("a barrier", where);
    block *home = self->home;
    if (id >= SIMT_BARRIERS) simt_fail(where, "barrier %u: there are %d", id, SIMT_BARRIERS);
    if (threads % 32 || threads > (simt.block_threads + 31) / 32 * 32) {
        simt_fail(where, "barrier %u for %u threads: not a multiple of 32, or more than the block has", id, threads);
    }
    if (id == 0 && threads >= simt.block_threads) threads = 0; /* the same barrier as __syncthreads */
    barrier *b = &home->barriers[id];
    unsigned w = self->index / 32, bit = 1u << self->lane;
    if (b->arrived == 0) {
        b->expected = threads;
        b->kind = kind;
        b->where = where;
    } else if (b->expected != threads) {
        simt_fail(where, "barrier %u for %u threads (0: all), but %s:%d has arrived at it for %u", id, threads, b->where.file,
                  b->where.line, b->expected);
    } else if (id == 0 && threads == 0 && (b->kind != kind || !same_site(b->where, where))) {
        simt_fail(where, "__syncthreads in divergent code: others of the block arrived at %s:%d", b->where.file, b->where.line);
    }
    if (b->who[w] & bit) simt_fail(where, "arrives at barrier %u for the second time in one phase, %u of %u have arrived", id, b->arrived,
                                   threads ? threads : home->live);
    unsigned phase = b->phase;
    b->who[w] |= bit;
    b->count += predicate != 0;
    ++b->arrived;
    SIMT_RELEASE(&b->sync[phase & 1]);
    bool last = b->arrived == (threads ? threads : home->live);
    if (!wait) {
        if (last) release_barrier(home, b, id);
        return 0;
    }
    self->what = id;
    self->next = b->sleepers;
    b->sleepers = self;
    self->wait = IN_BARRIER;
    if (last) release_barrier(home, b, id);
    simt_suspend(IN_BARRIER, where);
    SIMT_ACQUIRE(&b->sync[phase & 1]);
    return b->result[phase & 1];
}

int simt_block_barrier(simt_barrier_kind kind, int predicate, const char *file, int line)
{
    return arrive(0, 0, kind, predicate, true, {file, line});
}

void simt_bar_sync(unsigned id, unsigned threads, const char *file, int line)
{
    arrive(id, threads, SIMT_BARRIER_SYNC, 0, true, {file, line});
}

void simt_bar_arrive(unsigned id, unsigned threads, const char *file, int line)
{
    arrive(id, threads, SIMT_BARRIER_SYNC, 0, false, {file, line});
}

void simt_barrier_ended(thread *t) /* a thread that has exited counts as arrived where all threads are expected */
{
    barrier *b = &t->home->barriers[0];
    if (b->arrived && !b->expected && b->arrived == t->home->live) release_barrier(t->home, b, 0);
}

/* ---- cluster ---- */

unsigned simt_cluster_rank(void) { return simt_caller("simt_cluster_rank", {"", 0})->home->rank; }
unsigned simt_cluster_size(void) { return simt.cluster_size; }

static void release_cluster(unit *u)
{
    u->arrived = 0;
    ++u->phase;
    simt_wake_all(&u->sleepers);
    simt.idle_rounds = 0;
}

void simt_cluster_arrive(const char *file, int line)
{
    site where = {file, line};
    thread *self = simt_caller("simt_cluster_arrive", where);
    unit *u = self->home->part_of;
    if (self->cluster_arrived) simt_fail(where, "arrives at the cluster barrier for the second time without a wait");
    self->cluster_arrived = true;
    self->cluster_phase = u->phase;
    SIMT_RELEASE(&u->sync[u->phase & 1]);
    if (++u->arrived == u->live_threads) release_cluster(u);
}

void simt_cluster_wait(const char *file, int line)
{
    site where = {file, line};
    thread *self = simt_caller("simt_cluster_wait", where);
    unit *u = self->home->part_of;
    if (!self->cluster_arrived) simt_fail(where, "waits at the cluster barrier without having arrived");
    if (u->phase == self->cluster_phase) simt_sleep(&u->sleepers, IN_CLUSTER, 0, where);
    self->cluster_arrived = false;
    SIMT_ACQUIRE(&u->sync[self->cluster_phase & 1]);
}

void simt_cluster_ended(thread *t)
{
    unit *u = t->home->part_of;
    if (t->cluster_arrived && t->cluster_phase == u->phase) --u->arrived; /* it no longer counts among the live ones either */
    if (u->arrived && u->arrived == u->live_threads) release_cluster(u);
}

void *simt_cluster_map_shared_rank(const void *shared, unsigned rank, const char *file, int line)
{
    site where = {file, line};
    thread *self = simt_caller("simt_cluster_map_shared_rank", where);
    long offset = (long)((const char *)shared - self->home->arena);
    if (rank >= simt.cluster_size) simt_fail(where, "cluster rank %u of %u", rank, simt.cluster_size);
    if (offset < 0 || offset > (long)simt.shared) simt_fail(where, "maps an address that is not in the block's dynamic shared memory");
    block *other = simt.slots[self->home->part_of->first_slot + rank];
    if (!other->begun) simt_fail(where, "maps shared memory of block %u of the cluster, which may not run yet", rank);
    if (other->live == 0) simt_fail(where, "maps shared memory of block %u of the cluster, which has exited", rank);
    return other->arena + offset;
}
