#!/usr/bin/env python3
"""mutate.py: breaks the library at one point at a time and shows that its tests notice.

   python3 tests/mutate.py [--quick] [--only TEXT] [--jobs N] [--work FOLDER] [--table FILE]

A mutation is a file, a text that occurs in it exactly once, what takes its place, and the tests that should fail then. Each test is built
from its source with the mutated file in front of the include path, with g++ -O1 for the CPU executor, or with clang++ and ThreadSanitizer
where the mutation is a missing barrier or a weaker order, which a schedule may forgive. A test has failed when it ends with anything but 0,
or does not end. The tests are built and run without a mutation first and must pass.

   --quick          the few that are part of the test suite
   --only TEXT      those whose name or file contains TEXT
   --jobs N         at a time (2)
   --work FOLDER    where mutants live, and where the executor is built, once (build/mutate)
   --built FOLDER   a build folder of Meson that has the executor already
   --table FILE     writes a table of the results
   --list           prints the names and does nothing; docs/test.sh compares them with docs/testing.md

Ends with `N killed, N survived`. Exit code: 0 when none survived; 2 when a text no longer occurs once, or a mutant does not compile.
"""
import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TIMEOUT = 240  # seconds for one program; the slowest needs 60 with ThreadSanitizer

PLAIN, RACES = "executor", "executor, ThreadSanitizer"


def mutation(name, path, old, new, tests, how=PLAIN, quick=False):
    return {"name": name, "path": path, "old": old, "new": new, "tests": tests.split(), "how": how, "quick": quick}


KEY, ROW, GROUP = "include/topkit/key.cuh", "include/topkit/row.cuh", "include/topkit/group.cuh"
RESIDENT, SEARCH = "include/topkit/resident.cuh", "include/topkit/resident_search.cuh"
CANDIDATE, DIGIT, SAMPLER = "include/topkit/candidate.cuh", "include/topkit/digit.cuh", "include/topkit/sampler.cuh"
THRESHOLD, SINK, REFINER = "include/topkit/threshold.cuh", "include/topkit/sink.cuh", "include/topkit/refiner.cuh"
COLLECTOR, ORDER, SCHEDULER = "include/topkit/collector.cuh", "include/topkit/order.cuh", "include/topkit/scheduler.cuh"
SIGNAL, ROW_SELECT, PIPELINED = "include/topkit/signal.cuh", "examples/01_row_select.cuh", "examples/02_pipelined_select.cuh"
WHOLE = "include/topkit/team_resident.cuh"
JOB, SPLIT, TEAM = "examples/select_job.cuh", "examples/03_split_select.cuh", "include/topkit/team.cuh"
OPERATOR, ANY_K, PARTS = "examples/05_select.cu", "examples/10_any_k_select.cuh", "examples/any_k_part.cuh"

MUTATIONS = [
    # keys and gates
    mutation("zeros keep their sign", KEY, "topkit_add_zero(__uint_as_float(bits))", "__uint_as_float(bits)", "key"),
    mutation("infinities are NaNs", KEY, "return x == x ?", "return x - x == 0.0f ?", "key"),
    mutation("of equal keys the higher index wins", KEY, "(unsigned)~index;", "(unsigned)index;", "key refiner"),
    mutation("+inf's key becomes a NaN", KEY, "if (key > TOPKIT_KEY_POS_INF)", "if (key >= TOPKIT_KEY_POS_INF)", "key"),
    mutation("fp16 infinity overflows to a number", KEY, "if (magnitude >= 0x7c00u)", "if (magnitude > 0x7c00u)", "key"),
    mutation("what is above the last key wraps round", CANDIDATE, "bound > 0 || key == 0xffffffffu ? key", "bound > 0 ? key",
             "nan_highest"),
    mutation("a gate admits its bound", CANDIDATE, "index < gate.bound);", "index <= gate.bound);", "threshold candidate"),
    mutation("a gate at the lowest key is open", CANDIDATE, "return gate.key == 0 && gate.bound > 0;", "return gate.key == 0;",
             "threshold candidate"),
    # rows, groups, samples
    mutation("an aligned row has a head", ROW, "& 15)) & 15) / 4;", "& 15)) & 31) / 4;", "row"),
    mutation("the last vector is not whole", ROW, "t.vectors = (row.length - t.head) / 4;",
             "t.vectors = (row.length - t.head + 3) / 4;", "row"),
    mutation("the last tile is forgotten", ROW, "(t.vectors + TOPKIT_TILE_VECTORS - 1) /", "t.vectors /", "row"),
    mutation("a tile behind the last is visited", ROW, "} while (x >= (unsigned)count);", "} while (x > (unsigned)count);", "row"),
    mutation("the salt does not matter", ROW, "unsigned key = salt;", "unsigned key = 1u + 0u * salt;", "row"),
    mutation("a lane adds what is not below it", GROUP, "if (lane >= offset) sum += below;", "if (lane > offset) sum += below;", "group"),
    mutation("a warp's sync is missing", GROUP, "if (g.size == TOPKIT_WARP) __syncwarp();", "if (g.size == TOPKIT_WARP) return;", "order",
             RACES),
    mutation("one vector too many is sampled", SAMPLER, "+ width <= available - s.vectors", "<= available - s.vectors", "sampler"),
    mutation("all strata are sampled at one place", SAMPLER, "topkit_hash(s.seed + (unsigned)j)", "topkit_hash(s.seed)", "sampler"),
    mutation("the phase is no multiple of the width", SAMPLER,
             "(unsigned)(s.stride >> shift)) << shift;", "(unsigned)(s.stride >> shift));", "sampler"),
    # digits and thresholds
    mutation("one bit too few is dropped", DIGIT, "return bits > TOPKIT_DIGIT_BITS ? bits - TOPKIT_DIGIT_BITS : 0;",
             "return bits > TOPKIT_DIGIT_BITS + 1 ? bits - TOPKIT_DIGIT_BITS - 1 : 0;", "threshold refiner"),
    mutation("a rank is looked for one bin lower", DIGIT, "while (above + s->histogram[bin] < rank)",
             "while (above + s->histogram[bin] <= rank)", "threshold refiner"),
    mutation("the histogram is not cleared", DIGIT, "clear && i < end; i++)", "clear && i + 1 < end; i++)", "threshold refiner"),
    mutation("no barrier before the warps' sums are read", DIGIT, "if (lane == 0) s->warp_sums[warp] = total;\n    topkit_group_sync(g);",
             "if (lane == 0) s->warp_sums[warp] = total;", "refiner", RACES),
    mutation("no barrier before the warps' ranges are read", DIGIT, "    }\n    topkit_group_sync(g);\n    *low =", "    }\n    *low =",
             "refiner", RACES),
    mutation("a class without all its samples counts", THRESHOLD, "(whole ? class_maximum : 0xffffffffu)", "class_maximum", "threshold"),
    mutation("one class too few makes a bracket", THRESHOLD, "*low = holders >> shift >= rank ?", "*low = holders >> shift >= rank - 1 ?",
             "threshold"),
    mutation("a segment's rank counts double", THRESHOLD, "level ? 1 << (level - 1) : 0;", "level ? 1 << level : 0;", "threshold"),
    mutation("a bin that holds many is not looked into", THRESHOLD, "while (p->expected - (int)above > 8 + rank / 4)", "while (rank < 0)",
             "threshold"),
    mutation("a bin's last key is left out", THRESHOLD, "if (key < p->key || key > last) continue;",
             "if (key < p->key || key >= last) continue;", "threshold"),
    mutation("no barrier behind a range of equals", THRESHOLD,
             "        topkit_group_sync(g);\n        if (low == high) return; /* they are equal */",
             "        if (low == high) return;\n        topkit_group_sync(g);", "threshold", RACES),
    mutation("no barrier behind the counting", THRESHOLD, "    topkit_group_sync(g);\n    const topkit_digit_found found",
             "    const topkit_digit_found found", "threshold", RACES),
    # refiner
    mutation("the region loses its last value", REFINER, "races && value - r->low <= last,", "races && value - r->low < last,",
             "refiner"),
    mutation("the region's last value is above it", REFINER, "kind[u] = value > edge ?", "kind[u] = value >= edge ?", "refiner"),
    mutation("the region's first value is below it", REFINER, ": value >= r.low ? 65536u", ": value > r.low ? 65536u", "refiner"),
    mutation("candidates that are not there are emitted", REFINER,
             "            if (left <= u * (int)g.size) kind[u] = 0;\n", "", "refiner"),
    mutation("one boundary member more than there is room for", REFINER, "r.inside <= TOPKIT_BOUNDARY ||",
             "r.inside <= TOPKIT_BOUNDARY + 1 ||", "refiner"),
    mutation("a bin reaches into the next", REFINER, "0xffffffffu - r->low : (1u << shift) - 1;", "0xffffffffu - r->low : 1u << shift;", "refiner"),
    mutation("the cut leaves out the last tie", REFINER, "topkit_cut_at((unsigned)(mine >> 32), (int)~(unsigned)mine + 1,",
             "topkit_cut_at((unsigned)(mine >> 32), (int)~(unsigned)mine,", "refiner"),
    mutation("one tie too many", REFINER, "if (tie && ticket >= cut.ties)", "if (tie && ticket > cut.ties)", "refiner"),
    mutation("the list is not emptied", REFINER,
             "if (g.thread == 0) s->counts[TOPKIT__EMITTED] = s->counts[TOPKIT__LISTED] = 0;",
             "if (g.thread == 0) s->counts[TOPKIT__EMITTED] = 0;", "refiner"),
    mutation("the ties taken are not forgotten", REFINER,
             "const int kept = (int)s->counts[TOPKIT__EMITTED];\n    topkit_group_sync(g);\n"
             "    if (g.thread == 0) s->counts[TOPKIT__EMITTED] = s->taken = 0;",
             "const int kept = (int)s->counts[TOPKIT__EMITTED];\n    topkit_group_sync(g);\n"
             "    if (g.thread == 0) s->counts[TOPKIT__EMITTED] = 0;", "refiner"),
    mutation("candidates move before they were read", REFINER,
             "        topkit_group_sync(g); /* what lies below base + size has been read by all; the slots lie there */\n", "", "refiner",
             RACES),
    mutation("no barrier between two ranges", REFINER,
             "        topkit_group_sync(g); /* all have read the range of the keys before that of the indices takes its place */\n", "",
             "refiner", RACES),
    # collector
    mutation("a buffer is full one candidate early", COLLECTOR, "if (base + total > (unsigned)c.capacity) {",
             "if (base + total >= (unsigned)c.capacity) {", "collector"),
    mutation("a buffer takes one candidate too many", COLLECTOR, "if (base + total > (unsigned)c.capacity) {",
             "if (base + total > (unsigned)c.capacity + 1) {", "collector"),
    mutation("the end of the buffer is not marked", COLLECTOR,
             "if (topkit_lane(g) == 0) atomicMin(&c.state->stored, base);", "", "collector"),
    mutation("lanes write over each other", COLLECTOR, "*slot = c.items + base + below;\n    return true;",
             "*slot = c.items + base;\n    return true;", "collector"),
    mutation("a tile across the bound is not looked at closely", COLLECTOR, "else exact |= tile->first + TOPKIT_TILE > gate.bound;", "",
             "candidate collector"),
    mutation("NaNs do not pass an open gate", COLLECTOR, "topkit_gate_is_open(gate)) mask = tile->valid;",
             "topkit_gate_is_open(gate)) mask = topkit_tile_mask(tile, gate.value) & tile->valid;", "collector"),
    mutation("the order's last tile is not visited", COLLECTOR,
             "for (; n < tiles.count; n += (int)topkit_warps(g)) {",
             "for (; n < tiles.count - 1; n += (int)topkit_warps(g)) {", "collector"),
    mutation("a compacted buffer keeps its old end", COLLECTOR,
             "c.state->count = (unsigned)kept;\n        c.state->stored = (unsigned)c.capacity;", "c.state->count = (unsigned)kept;",
             "collector"),
    mutation("no barrier behind the scan's last look", COLLECTOR,
             "const int held = topkit_collector_held(c);\n    topkit_group_sync(g);\n    return held;",
             "const int held = topkit_collector_held(c);\n    return held;", "collector", RACES),
    mutation("no barrier before a compaction", COLLECTOR,
             "if (!topkit_collect_tile<TIES>(g, c, gate, &tile)) break;\n        }\n        topkit_group_sync(g);",
             "if (!topkit_collect_tile<TIES>(g, c, gate, &tile)) break;\n        }", "collector", RACES),
    # teams
    mutation("a meeting is over before all have come", TEAM, "< team->meetings * team->blocks) topkit_relax();",
             "+ 1 < team->meetings * team->blocks) topkit_relax();", "team"),
    mutation("a meeting acquires nothing", TEAM, "while (topkit_load_acquire(team->arrivals) <", "while (topkit_peek(team->arrivals) <",
             "team", RACES),
    mutation("the last to come leaves the arrivals", TEAM, "        if (s->last) *team->arrivals = 0;\n", "", "team"),
    mutation("the last to leave is not the last", TEAM, "(team->meetings + 1) * team->blocks - 1); /*",
             "(team->meetings + 1) * team->blocks); /*", "team"),
    mutation("two steps have the same half of the workspace", TEAM, "(team->meetings & 1) * team->blocks", "0 * team->blocks", "team",
             RACES),
    mutation("a cluster's blocks are written to before they run", TEAM, "        topkit_cluster_wait();\n    }\n    topkit_group_sync(g);",
             "        if (team->meetings > 0) topkit_cluster_wait();\n    }\n    topkit_group_sync(g);", "team"),
    mutation("a cluster's columns are written while they are read", TEAM,
             "        if (team->meetings > 0) topkit_cluster_arrive();\n        topkit_cluster_wait();",
             "        if (team->meetings == 0) topkit_cluster_wait();", "team", RACES),
    mutation("a block is among those before it", TEAM, "before[1] += base + u < block ?", "before[1] += base + u <= block ?", "team"),
    mutation("the boundary lies one bin too low", TEAM, "reach[1] >= rank ?", "reach[1] > rank ?", "team"),
    mutation("what exceeds the guess is not counted", TEAM, "(open ? value >= r.low :", "(false ? value >= r.low :", "team"),
    mutation("an open region is closed at its end", TEAM, "r->span = open && found.bin == TOPKIT_TEAM_BINS - 1 ?", "r->span = false ?",
             "team"),
    mutation("earlier steps' blocks before are forgotten", TEAM, "b.above_before += found.above_before;",
             "b.above_before = found.above_before;", "team"),
    mutation("indices count from a block's own", TEAM, "            batch.c[u].index += team->begin;\n", "", "team"),
    mutation("the last value of a team's region is above it", TEAM, "kind[u] = value > edge ?", "kind[u] = value >= edge ?", "team"),
    mutation("all blocks of a team begin at its first slot", TEAM, "unsigned put = b.above_before + __shfl",
             "unsigned put = __shfl", "team"),
    mutation("one of the equals too many", TEAM, "else if (place < r.need)", "else if (place <= r.need)", "team"),
    mutation("a member is better than itself", TEAM, "team->members[j].index) > mine;", "team->members[j].index) >= mine;", "team"),
    # parts of a row that lie whole
    mutation("who is in the boundary's bin is above it", WHOLE, "b.bins, lowest, lowest + 1, &reach", "b.bins, lowest, lowest, &reach",
             "split"),
    mutation("the last bin has an end", WHOLE, "if (!last && topkit__region_is_settled", "if (topkit__region_is_settled", "split"),
    mutation("a gate that is too high is believed", WHOLE, "if (b.again) b.team = topkit_team_search", "if (false) b.team = topkit_team_search",
             "split"),
    mutation("what no vector was left for is as good as any", WHOLE, "        reach <<= 4 * (8 - u);\n", "", "split"),
    mutation("a part's indices begin at its row's", WHOLE, "offset = team->begin - part.lead;", "offset = -part.lead;", "split"),
    mutation("a refused launch is made again as it was", OPERATOR, "        topkit_plan_clusters(&fewer, p->rows);\n", "", "select_errors"),
    # resident rows
    mutation("a thread's bins go on behind the histogram", RESIDENT, "end = begin + each < fours ? begin + each : fours;",
             "end = begin + each;", "resident"),
    mutation("members are left behind in the histogram", RESIDENT, "        topkit__resident_members(s)[i] = 0;\n", "", "resident"),
    mutation("the last of the members is not selected", RESIDENT, "if (rank <= need)", "if (rank < need)", "resident"),
    mutation("fewer groups than k make a bound", RESIDENT, "if (groups < k) bracket.low = 0;", "", "resident"),
    mutation("a member's index counts from the boundary", RESIDENT, "__float_as_uint(r.scores[position]), position - r.lead);",
             "__float_as_uint(r.scores[position]), position);", "resident"),
    mutation("what fills up a vector ranks first", RESIDENT,
             "TOPKIT_NAN == TOPKIT_NAN_LOWEST ? 0x7fffffffu : 0xff800000u);\n#pragma unroll 1",
             "0x7f800000u);\n#pragma unroll 1", "resident"),
    mutation("a region goes on behind the bounds", SEARCH, "region.span = left < whole ? left : whole;", "region.span = whole;", "resident"),
    mutation("NaNs are counted as the best scores", RESIDENT, "fminf(fmaxf(y, lowest), last)", "fmaxf(fminf(y, last), lowest)", "resident"),
    mutation("what exceeds the bounds is not subtracted", SEARCH, "(unsigned)k - above, inside,", "(unsigned)k, inside,", "resident"),
    mutation("what fills up a vector is listed", SEARCH, "sure = sure << 1 | (there && (view", "sure = sure << 1 | ((view", "resident"),
    mutation("a plateau gives one more than is wanted", RESIDENT, "else if (put < need)", "else if (put <= need)", "resident"),
    mutation("a plateau's members are compared as well", SEARCH, "    if (plateau && g.thread == 0) s->counts[TOPKIT__RESIDENT_MEMBERS] = 0;",
             "   ", "resident"),
    mutation("four at once go past the end of the list", RESIDENT, "from = r.listed & ~3;", "from = (r.listed + 3) & ~3;", "resident"),
    mutation("what is not wanted is counted with the rest", DIGIT, "wanted ? bin + TOPKIT_WARP : topkit_lane(g)",
             "bin + TOPKIT_WARP", "resident"),
    # order, sinks, signals, scheduler
    mutation("a mask's words are left as they are", ORDER, "        words[i] = 0;\n", "", "order"),
    mutation("a mask's last word is not counted", ORDER, "each = (count + (int)g.size - 1) / (int)g.size;", "each = (count + (int)g.size - 2) / (int)g.size;",
             "order"),
    mutation("equals are not told apart by index", ORDER, "<< 32 | (unsigned)c.index;", "<< 32;", "order", quick=True),
    mutation("a bin of different keys is spread by index", ORDER, "atomicAnd(&m->bins[bin], ~TOPKIT__SORT_ALIKE);",
             "atomicAnd(&m->bins[bin], ~0u);", "order"),
    mutation("there are more bins than room for them", ORDER, "bits - TOPKIT_DIGIT_BITS + 1 : 0", "bits - TOPKIT_DIGIT_BITS : 0", "order"),
    mutation("every other neighbour is left out", ORDER, "j + 1 < (unsigned)m.count ? j + 1 : i", "i", "order", quick=True),
    mutation("places of one bin run into the next", ORDER, "<< 1 << (31 - m.shift)", "<< 2 << (31 - m.shift)", "order"),
    mutation("a bin's first value stays in the histogram", ORDER, "    topkit__sort_clear(g, m.first, m.used);\n", "", "order"),
    mutation("the network stops one pass early", ORDER, "distance > 0; distance /= 2", "distance > 1; distance /= 2", "order"),
    mutation("the network looks past the last candidate", ORDER, "if (b >= m.count) continue;", "if (b > m.count) continue;", "order"),
    mutation("no barrier between passes", ORDER, "                }\n            }\n            topkit_group_sync(g);",
             "                }\n            }", "order", RACES),
    mutation("no barrier between the ranges of keys and indices", ORDER,
             "        topkit_group_sync(g); /* all have read the range of the keys */\n", "", "order", RACES),
    mutation("the list is read before it is whole", ORDER, "    topkit_group_sync(g);\n}\n\n/* Compares the candidates",
             "}\n\n/* Compares the candidates", "order", RACES, quick=True),
    mutation("a mask's bit is in the wrong place", SINK, "1u << (index & 31)", "1u << (index & 15)", "sink"),
    mutation("a page is one slot too small", SINK, "((1 << s.page_bits) - 1)", "((1 << s.page_bits) - 2)", "sink"),
    mutation("a signal forgets its parity", SIGNAL, "topkit_mbarrier_wait(&s->bits, use & 1);", "topkit_mbarrier_wait(&s->bits, 0);",
             "signal"),
    mutation("the queue is not put back", SCHEDULER, "== (unsigned)workers - 1) {", "== (unsigned)workers) {", "scheduler"),
    mutation("the last worker does not wait for the others' work", SCHEDULER, "topkit_add_acq_rel(&q->left, 1u)",
             "__atomic_fetch_add(&q->left, 1u, __ATOMIC_RELAXED)", "scheduler", RACES),
    mutation("the order is published too early", SCHEDULER,
             "    __threadfence(); /* the whole group's stores, which the barrier before this call ordered before it */\n"
             "    topkit_store_release(&q->ready, 1u);", "    __atomic_store_n(&q->ready, 1u, __ATOMIC_RELAXED);", "scheduler", RACES),
    mutation("the order is read without acquiring it", SCHEDULER, "while (topkit_load_acquire(&q->ready) == 0)",
             "while (topkit_peek(&q->ready) == 0)", "scheduler", RACES),
    mutation("a length of a whole power has the wrong bin", SCHEDULER, "shift = bits > 6 ? bits - 6 : 0;",
             "shift = bits > 6 ? bits - 5 : 0;", "scheduler"),
    mutation("a segment begins one item late", SCHEDULER, "if (first[middle] <= item) low = middle;",
             "if (first[middle] < item) low = middle;", "scheduler"),
    mutation("a row of whole segments has one too many", SCHEDULER, "(length - 1) / segment + 1)", "length / segment + 1)", "scheduler"),
    mutation("no barrier between two steps of segments", SCHEDULER,
             "        topkit_group_sync(g);\n    }\n    if (g.thread == 0) first[count]",
             "    }\n    if (g.thread == 0) first[count]", "scheduler", RACES),
    # the kernels
    mutation("an underfilled row is delivered", ROW_SELECT, "if (held < wanted) {", "if (held + 1 < wanted) {", "select_worst"),
    mutation("a block never leaves its queue", ROW_SELECT, "if (block.thread == 0) topkit_queue_leave(job.queue, workers);", "",
             "select_values"),
    mutation("the pipeline's certificate is one short", PIPELINED, "if (held >= wanted) topkit_job_deliver",
             "if (held + 1 >= wanted) topkit_job_deliver", "select_worst"),
    mutation("the last part ends with a tile", SPLIT, "(part == parts - 1 || end > row.length ?", "(end > row.length ?", "split"),
    mutation("a split row's padding begins one slot late", SPLIT, "topkit_sink_pad_all(block.thread, block.size, wanted, job.k, sink.out);",
             "topkit_sink_pad_all(block.thread, block.size, wanted + 1, job.k, sink.out);", "split"),
    mutation("a split row that is read again keeps its gate", SPLIT,
             "job, topkit_gate_open(), topkit_job_visit(job, r), c, s);",
             "job, topkit_gate_at(TOPKIT_KEY_POS_INF, TOPKIT_INDEX_LIMIT), topkit_job_visit(job, r), c, s);", "split"),
    mutation("each launch sets its own limit of shared memory", OPERATOR, "plan->shared_limit);", "plan->shared_bytes);", "select_launch"),
    mutation("padding begins one slot late", JOB, "topkit_sink_pad_all(g.thread, g.size, wanted, job.k, sink);",
             "topkit_sink_pad_all(g.thread, g.size, wanted + 1, job.k, sink);", "select_values select_memory"),
    # known bounds, and rows of any k in parts
    mutation("what exceeds the known bounds is not counted", REFINER, "last = open ? 0xffffffffu - r->low : r->span;", "last = r->span;",
             "refiner"),
    mutation("the last bin of known bounds ends with its digit", REFINER, "r->span = open && found.bin == TOPKIT_DIGIT_BINS - 1 ?",
             "r->span = false ?", "refiner"),
    mutation("a part begins behind its own scores", PARTS, "lane < block ? theirs : 0u", "lane <= block ? theirs : 0u", "select_any_k"),
    mutation("a part counts the boundary's bin as above", PARTS, "b = bin + 1 + g.thread;", "b = bin + g.thread;", "select_any_k"),
    mutation("a part takes ties that those before it took", ANY_K, "sums.before[1] < cut.ties ? sums.before[1] : cut.ties;", "0;",
             "select_any_k"),
    mutation("a part forgets what a missed bracket found", ANY_K, "own->inside -= s->from;", ";", "select_any_k"),
]

FLAGS = ["-std=c++17", "-O1", "-g1", "-ffp-contract=off", "-Wno-unknown-pragmas", "-DTOPKIT_SIMT=1"]


def fail(text):
    print("mutate.py: " + text, file=sys.stderr)
    sys.exit(2)


def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **more)


class Builder:
    """Builds programs of a tree in which one file may be another."""

    def __init__(self, work, built):
        self.work = work
        self.built = built
        os.makedirs(work, exist_ok=True)

    def once(self, name, command):
        """The file that a command makes from sources that no mutation changes."""
        out = os.path.join(self.work, name)
        if not os.path.exists(out):
            made = run(command + ["-o", out + ".new"])
            if made.returncode:
                fail("cannot build %s\n%s" % (name, made.stdout[-3000:]))
            os.rename(out + ".new", out)
        return out

    def prepare(self, how):
        """What every program is linked with."""
        if self.built:
            simt = "tests/simt/libsimt.a" if how == PLAIN else "tests/simt/libsimt_tsan.a"
            return [os.path.join(self.built, name) for name in
                    ["tests/libtest_main.a", "tests/libtest_device_cpu.a", simt, "examples/libtopkit_plan.a"]]
        simt = os.path.join(ROOT, "tests", "simt")
        sources = ["simt", "simt_launch", "simt_collective", "simt_async", "simt_report", "simt_runtime", "simt_work"]
        compiler, more = ("g++", []) if how == PLAIN else ("clang++", ["-DSIMT_TSAN=1"])
        tag = "plain" if how == PLAIN else "tsan"
        objects = [self.once("%s_%s.o" % (name, tag), [compiler, "-std=c++17", "-O2", "-c", os.path.join(simt, name + ".cpp")] + more)
                   for name in sources]
        for name in ["main", "device"]:
            objects.append(self.once(name + ".o", ["g++", "-std=c++17", "-O0", "-c", os.path.join(ROOT, "tests", name + ".cpp")]))
        objects.append(self.once("plan.o", ["gcc", "-std=c11", "-O2", "-c", os.path.join(ROOT, "examples", "plan.c")]))
        return objects

    def program(self, folder, test, how, objects):
        """None, or what the compiler said. The program is FOLDER/TEST."""
        front = [folder + "/include", folder + "/examples", ROOT + "/include", ROOT + "/examples", ROOT + "/tests", ROOT + "/tests/simt"]
        compiler = ["g++"] if how == PLAIN else ["clang++", "-fsanitize=thread", "-DTOPKIT_TEST_BRIEF=1"]
        operator = folder + "/examples/05_select.cu"
        operator = operator if os.path.exists(operator) else ROOT + "/examples/05_select.cu"
        sources = [ROOT + "/tests/test_%s.cu" % test] + ([operator] if test.startswith("select_") else [])
        made = []
        for source in sources:
            made.append(os.path.join(folder, os.path.basename(source) + ".o"))
            compiled = run(compiler + FLAGS + ["-include", ROOT + "/tests/simt/simt_cuda.h"] + ["-I" + path for path in front] +
                           ["-x", "c++", "-c", source, "-o", made[-1]])
            if compiled.returncode:
                return compiled.stdout
        linked = run(compiler + made + objects + ["-lboost_context", "-o", os.path.join(folder, test)])
        return linked.stdout if linked.returncode else None


def verdict(folder, test):
    """Why the test fails, or None."""
    settings = dict(os.environ, TSAN_OPTIONS="exitcode=66:halt_on_error=1", TOPKIT_TEST_CASES="60")
    settings.pop("UBSAN_OPTIONS", None)  # Meson's; clang's ThreadSanitizer would abort for it
    try:
        ended = run([os.path.join(folder, test), "--abort"], timeout=TIMEOUT, env=settings)
    except subprocess.TimeoutExpired:
        return "does not end"
    if ended.returncode == 0:
        return None
    if ended.returncode == 66:
        return "data race"
    for line in ended.stdout.splitlines():
        if line.startswith("simt: "):
            return "report of the executor"
    return "assertion" if ended.returncode == 1 else "exit code %d" % ended.returncode


def mutate(builder, objects, m):
    """Builds and runs one mutation: the test that killed it and why, or None."""
    folder = tempfile.mkdtemp(prefix="mutant-", dir=builder.work)
    try:
        if m["path"]:
            text = open(os.path.join(ROOT, m["path"])).read()
            target = os.path.join(folder, m["path"])
            os.makedirs(os.path.dirname(target))
            with open(target, "w") as out:
                out.write(text.replace(m["old"], m["new"]))
            if m["path"].startswith("examples/"):  # these include each other by the folder that they lie in
                for name in os.listdir(os.path.join(ROOT, "examples")):
                    source = os.path.join(ROOT, "examples", name)
                    if os.path.isfile(source) and not os.path.exists(os.path.join(folder, "examples", name)):
                        shutil.copy(source, os.path.join(folder, "examples", name))
        for test in m["tests"]:
            said = builder.program(folder, test, m["how"], objects[m["how"]])
            if said is not None:
                return "ERROR", said
            why = verdict(folder, test)
            if why:
                return test, why
        return None
    finally:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--help", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "mutate"))
    parser.add_argument("--built")
    parser.add_argument("--table")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.help:
        print(__doc__)
        return 0
    if options.list:
        print("\n".join(m["name"] for m in MUTATIONS))
        return 0
    chosen = [m for m in MUTATIONS if (m["quick"] or not options.quick) and options.only in m["name"] + " " + m["path"]]
    for m in chosen:
        times = open(os.path.join(ROOT, m["path"])).read().count(m["old"])
        if times != 1:
            fail("'%s': its text occurs %d times in %s:\n%s" % (m["name"], times, m["path"], m["old"]))
    for tool in ["g++"] + (["clang++"] if any(m["how"] == RACES for m in chosen) else []):
        if not shutil.which(tool):
            print("SKIP: there is no " + tool)
            return 77
    builder = Builder(options.work, options.built)
    objects = {how: builder.prepare(how) for how in {m["how"] for m in chosen}}
    unbroken = [mutation("nothing", "", "", "", test, how) for test, how in sorted({(t, m["how"]) for m in chosen for t in m["tests"]})]
    survived = 0
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for m, result in zip(unbroken, pool.map(lambda m: mutate(builder, objects, m), unbroken)):
            if result:
                fail("%s fails without any mutation (%s): %s\n%s" % (m["tests"][0], m["how"], result[0], result[1][-3000:]))
        for m, result in zip(chosen, pool.map(lambda m: mutate(builder, objects, m), chosen)):
            if result and result[0] == "ERROR":
                fail("'%s' does not compile:\n%s" % (m["name"], result[1][-3000:]))
            by = "%s: %s" % result if result else "SURVIVED " + " ".join(m["tests"])
            survived += not result
            print("%-56s %-34s %s" % (m["name"], m["path"], by), flush=True)
            rows.append("| %s | %s | %s | %s |" % (m["name"], os.path.basename(m["path"]), m["how"], by))
    if options.table:
        with open(options.table, "w") as out:
            out.write("| what is broken | in | run on | noticed by |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")
    print("%d killed, %d survived" % (len(chosen) - survived, survived))
    return 1 if survived else 0


sys.exit(main())
