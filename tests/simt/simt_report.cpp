/* simt_report.cpp: the list of failures, and the report of who waits where when nobody can run. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simt.h"
#include "simt_internal.h"

enum { TEXT = 4096 };
static char **failures;
static int failure_count;

int simt_failures(void) { return failure_count; }
const char *simt_failure(int index) { return index >= 0 && index < failure_count ? failures[index] : ""; }

void simt_clear_failures(void)
{
    for (int i = 0; i < failure_count; ++i) free(failures[i]);
    failure_count = 0;
}

static void add(const char *text)
{
    static const char *const names[] = {"forward", "reverse", "random"};
    char line[TEXT + 256];
    snprintf(line, sizeof line, "simt: %s [launch %llu, %s schedule, seed %llu, preempt %g]", text, simt.launches, names[simt.schedule],
             simt.seed, simt.preempt);
    fprintf(stderr, "%s\n", line);
    failures = (char **)realloc(failures, (size_t)(failure_count + 1) * sizeof *failures);
    if (!failures || !(failures[failure_count] = strdup(line))) abort();
    ++failure_count;
}

void simt_report(thread *t, site where, const char *format, va_list arguments)
{
    char text[TEXT];
    int used = 0;
    if (t) {
        uint3 b = t->at.block_idx, i = t->at.thread_idx;
        used = snprintf(text, sizeof text, "block (%u,%u,%u) thread (%u,%u,%u), warp %u lane %u", b.x, b.y, b.z, i.x, i.y, i.z,
                        t->index / 32, t->lane);
        if (where.line) used += snprintf(text + used, sizeof text - (size_t)used, ", at %s:%d", where.file, where.line);
        used += snprintf(text + used, sizeof text - (size_t)used, ": ");
    }
    vsnprintf(text + used, sizeof text - (size_t)used, format, arguments);
    add(text);
}

static int describe(char *text, size_t room, const thread *t)
{
    long tx;
    const void *address;
    switch (t->wait) {
    case IN_WARP: return snprintf(text, room, "in %s of mask 0x%08x", simt_op_name(t->what), t->mask);
    case IN_BARRIER: {
        const barrier *b = &t->home->barriers[t->what];
        return snprintf(text, room, "at barrier %u, %u of %u arrived", t->what, b->arrived, b->expected ? b->expected : t->home->live);
    }
    case IN_CLUSTER: return snprintf(text, room, "at the cluster barrier, %u of %u arrived", t->home->part_of->arrived,
                                     t->home->part_of->live_threads);
    case IN_MBARRIER: {
        unsigned pending = simt_mbarrier_pending(t->what, &tx, &address);
        return snprintf(text, room, "at the mbarrier at shared offset %ld, %u arrivals and %ld bytes missing",
                        (long)((const char *)address - t->home->arena), pending, tx);
    }
    case YIELDED: return snprintf(text, room, "spin");
    default: return snprintf(text, room, "can run");
    }
}

static bool alike(const thread *a, const thread *b)
{
    return a->wait == b->wait && a->what == b->what && (a->wait != IN_WARP || a->mask == b->mask) && a->where.line == b->where.line &&
           (a->where.file == b->where.file || !strcmp(a->where.file, b->where.file));
}

/* One line for each run of neighbouring threads that wait alike. */
void simt_report_waiting(const char *what)
{
    char text[TEXT];
    int used = snprintf(text, sizeof text, "%s", what), lines = 0;
    for (unsigned s = 0; s < simt.slot_count; ++s) {
        block *b = simt.slots[s];
        if (!b->part_of || b->part_of < simt.units || b->part_of >= simt.units + simt.unit_count || !b->part_of->active) continue;
        for (unsigned i = 0, last; i < simt.block_threads; i = last) {
            thread *t = &b->threads[i];
            for (last = i + 1; last < simt.block_threads && alike(t, &b->threads[last]); ++last) {}
            if (t->wait == FINISHED) continue;
            if (++lines > 24 || used > TEXT - 512) {
                snprintf(text + used, sizeof text - (size_t)used, "\n    ...");
                return add(text);
            }
            uint3 at = t->at.block_idx;
            used += snprintf(text + used, sizeof text - (size_t)used, "\n    block (%u,%u,%u) threads %u-%u ", at.x, at.y, at.z, i,
                             last - 1);
            used += describe(text + used, sizeof text - (size_t)used, t);
            used += snprintf(text + used, sizeof text - (size_t)used, ", %s:%d", t->where.file, t->where.line);
        }
    }
    add(text);
}
