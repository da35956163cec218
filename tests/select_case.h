/* select_case.h: one matrix, selected from by every route, tie policy and order, and checked against the oracle (oracle.h).
 *
 *   matrix m = matrix_of(33, 8192, [](int r, int i) { return permuted(8192, r, i) * 0x1p-10f; });
 *   m.lengths = ...; m.row_stride = ...;                            as the case wants it
 *   trial t(m);
 *   t.check(2048);                                                  EXACT, and EXACT+LOW under lowest-index ties, everywhere
 *
 * Around each launch: outputs hold 0x7f7f7f7f before it, guard words stand around outputs and workspace, the workspace is zeroed when it
 * is allocated and never again, and the matrix ends with its allocation. A route that topkit_make_plan refuses (not in this build, not
 * for this k, not on this device) is passed over; AUTO must always do, ROW up to k = 4096, and so must AUTO where the order is by score. On
 * the executor each launch takes the next schedule in turn and only some of the combinations are run: a failure says which.
 */
#ifndef TOPKIT_TESTS_SELECT_CASE_H
#define TOPKIT_TESTS_SELECT_CASE_H

#include "guarded.h"
#include "host.h"
#include "oracle.h"
#include "select.h"

#include <memory>
#include <sstream>

/* For programs that run everything once more: under a sanitizer, where it takes five times as long, or with the other NaN policy. What
 * these look for depends little on schedules and combinations. */
#ifdef TOPKIT_TEST_BRIEF
static const bool BRIEF = true;
#else
static const bool BRIEF = false;
#endif

/* ---- formulas of the cases ---- */

static inline float bits_float(uint32_t bits) {
    float score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

/* A permutation of 0 .. n-1, another one for each row: (a*i + 17 + r) mod n, a the first of a few primes that does not divide n. */
static inline int permuted(int n, int r, int i) {
    static const int primes[] = {4099, 4111, 4127, 4129};
    int a = primes[0];
    for (int p : primes) {
        a = p;
        if (n % p) break;
    }
    return (int)(((long long)a * i + 17 + r) % n);
}

static inline uint64_t mixed(uint64_t x) { /* splitmix64's finaliser */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}
static inline uint64_t hashed(int r, int i) { return mixed((uint64_t)(uint32_t)r << 32 | (uint32_t)i); }

/* ---- the input ---- */

static const float POISON = bits_float(0x7f800000u); /* +inf: whoever reads outside a row selects it */

struct matrix {
    int rows = 0, max_length = 0;
    long long row_stride = 0;
    int displaced = 0;                /* elements from a 256-byte boundary to the first score */
    std::vector<float> scores;        /* to the end of the allocation */
    std::vector<int> lengths, starts; /* empty: null */

    int length(int r) const {
        const int n = lengths.empty() ? max_length : lengths[(size_t)r];
        return n < 0 ? 0 : n > max_length ? max_length : n;
    }
    long long begin(int r) const { return r * row_stride + (starts.empty() ? 0 : starts[(size_t)r]); }
    const float *row(int r) const { return scores.data() + (length(r) ? begin(r) : 0); }

    /* (Re)writes every row by formula(row, index), with `around` wherever no row lies; the allocation ends with the last row. */
    template <class F> void fill(F formula, float around = POISON) {
        long long end = 0;
        for (int r = 0; r < rows; r++) end = length(r) && begin(r) + length(r) > end ? begin(r) + length(r) : end;
        scores.assign(end ? (size_t)end : 1, around); /* not null, even where there is nothing to read */
        for (int r = 0; r < rows; r++) {
            for (int i = 0; i < length(r); i++) scores[(size_t)(begin(r) + i)] = formula(r, i);
        }
    }
};

template <class F> static inline matrix matrix_of(int rows, int n, F formula) {
    matrix m;
    m.rows = rows;
    m.max_length = n;
    m.row_stride = n;
    m.fill(formula);
    return m;
}

/* ---- routes, ties, orders ---- */

struct mode {
    int route, ties, order;
};

static const int ROUTES[] = {TOPKIT_ROUTE_AUTO,  TOPKIT_ROUTE_ROW,    TOPKIT_ROUTE_PIPELINED,
                             TOPKIT_ROUTE_SPLIT, TOPKIT_ROUTE_DIRECT, TOPKIT_ROUTE_ANY_K};
enum { ROUTE_COUNT = sizeof ROUTES / sizeof *ROUTES };

static inline topkit_device_facts device_facts_here(void) {
    topkit_device_facts f = {};
    REQUIRE(topkit_host_facts(&f) == TOPKIT_OK);
    return f;
}

static inline int plan_here(int rows, int max_length, int k, int order, int route, topkit_plan *plan) {
    const topkit_device_facts facts = device_facts_here();
    return topkit_make_plan(rows, max_length, k, order, route, &facts, plan);
}

/* The largest k of a route for rows of this length; 2^30 when there is no limit below. */
static inline int largest_k(int route, int max_length) {
    topkit_plan plan;
    int fits = 0, above = (1 << 30) + 1;
    while (above - fits > 1) {
        const int k = fits + (above - fits) / 2;
        if (plan_here(1, max_length, k, TOPKIT_ORDER_NONE, route, &plan) == TOPKIT_OK) fits = k;
        else above = k;
    }
    return fits;
}

/* A schedule of the executor for the next launch: forward, reverse, random, random with preemption and several blocks at a time. Whoever
 * sets SIMT_SCHEDULE keeps what it says. */
static inline std::string next_schedule(void) {
#ifdef TOPKIT_SIMT
    static unsigned turn;
    if (getenv("SIMT_SCHEDULE")) return "as SIMT_SCHEDULE says";
    static const char *names[] = {"forward", "reverse", "random", "random with preemption, 3 blocks at a time"};
    const unsigned n = turn++ % 4;
    simt_set_schedule(n == 0 ? SIMT_FORWARD : n == 1 ? SIMT_REVERSE : SIMT_RANDOM, turn);
    simt_set_preempt(n == 3 ? 0.1 : 0.0);
    simt_set_resident_blocks(n == 3 ? 3 : 1);
    return std::string(names[n]) + ", seed " + std::to_string(turn);
#else
    return "the GPU's own";
#endif
}

enum { PREFILL_BYTE = 0x7f, HEADER_BYTES = TOPKIT_WORKSPACE_HEADER };
static const uint32_t PREFILL = 0x7f7f7f7fu;

/* ---- the trial ---- */

struct trial {
    matrix m;
    exact<float> scores;
    exact<int> lengths, starts;
    long long index_stride = 0, value_stride = 0; /* 0: k, as in select.h */
    bool wants_values = true;
    unsigned seed = 1;                            /* of every launch; 0: each draws its own, and statistics are not the same twice */
    int runs = 0;                                 /* launches checked so far */

    explicit trial(const matrix &input) : m(input), scores(m.scores, (size_t)m.displaced), lengths(m.lengths), starts(m.starts) {}
    ~trial() = default;

    /* New contents of the same shape, written on the stream; m is what it was changed to. */
    void rewrite(cudaStream_t stream) {
        scores.write(m.scores, stream);
        lengths.write(m.lengths, stream);
        starts.write(m.starts, stream);
        best.clear();
    }

    topkit_select_params params(int k, mode how) const {
        topkit_select_params p = {};
        p.scores = scores.data;
        p.row_stride = m.row_stride;
        p.row_starts = starts.data;
        p.lengths = lengths.data;
        p.rows = m.rows;
        p.max_length = m.max_length;
        p.k = k;
        p.ties = how.ties;
        p.order = how.order;
        p.route = how.route;
        p.seed = seed;
        p.index_stride = index_stride;
        p.value_stride = value_stride;
        return p;
    }

    /* Outputs and workspace for a launch. False: the build or the route does not take it. */
    bool prepare(int k, mode how) {
        size_t need = 0;
        now = params(k, how);
        const int status = topkit_select_workspace(&now, &need);
        const bool refused = status == TOPKIT_ERROR_OPTION || status == TOPKIT_ERROR_K || status == TOPKIT_ERROR_DEVICE;
        const bool may_refuse = k > 4096 && (how.route == TOPKIT_ROUTE_ROW || how.order == TOPKIT_ORDER_SCORE);
        if (refused && (how.route > TOPKIT_ROUTE_ROW || may_refuse)) return false;
        REQUIRE(status == TOPKIT_OK);
        const long long is = index_stride ? index_stride : k, vs = value_stride ? value_stride : k;
        provide(&indices, m.rows && k ? (size_t)((m.rows - 1) * is + k) * 4 : 0);
        provide(&values, m.rows && k ? (size_t)((m.rows - 1) * vs + k) * 4 : 0);
        indices->fill(PREFILL_BYTE);
        values->fill(PREFILL_BYTE);
        if (provide(&workspace, need)) workspace->fill(0);
        now.indices = (int *)indices->data;
        now.values = wants_values ? values->data : nullptr;
        now.workspace = workspace->data;
        now.workspace_bytes = need;
        return true;
    }

    /* How many rows of what was prepared are wrong, after its launch has ended, and the first of them in words. */
    int wrong_rows(std::string *first) {
        std::vector<int> got;
        std::vector<uint32_t> bits;
        std::vector<unsigned char> rest;
        REQUIRE(indices->read(&got));
        REQUIRE(values->read(&bits));
        REQUIRE(workspace->read(&rest));
        for (size_t i = 0; i < HEADER_BYTES && i < rest.size(); i++) REQUIRE(rest[i] == 0); /* the queue has put itself back */
        const long long is = index_stride ? index_stride : now.k, vs = value_stride ? value_stride : now.k;
        int wrong = 0;
        answer_for(now.k);
        for (int r = 0; r < m.rows; r++) {
            const uint32_t *row_bits = wants_values ? bits.data() + r * vs : nullptr;
            const std::string fault = oracle_fault(m.row(r), m.length(r), best[(size_t)r], now.k, got.data() + r * is, row_bits,
                                                   now.ties == TOPKIT_TIES_LOWEST_INDEX, now.order);
            if (!fault.empty() && wrong++ == 0)
                *first = "row " + std::to_string(r) + " of length " + std::to_string(m.length(r)) + ": " + fault;
        }
        REQUIRE(gaps_kept(got, is));
        REQUIRE(gaps_kept(bits, wants_values ? vs : 0));
        runs++;
        return wrong;
    }
    void verify() {
        std::string first;
        if (wrong_rows(&first)) FAIL(first);
    }

    /* Whether the outputs still hold what prepare put there. */
    bool untouched() const {
        std::vector<uint32_t> inside;
        for (const std::unique_ptr<guarded> *out : {&indices, &values}) {
            if (!(*out)->read(&inside)) return false;
            for (uint32_t word : inside) {
                if (word != PREFILL) return false;
            }
        }
        return true;
    }

    /* One launch and its check. False: not offered. */
    bool run(int k, mode how, cudaStream_t stream = nullptr) {
        const std::string schedule = next_schedule();
        INFO("route " << how.route << ", ties " << how.ties << ", order " << how.order << ", k " << k << ", rows " << m.rows);
        INFO("max_length " << m.max_length << ", row_stride " << m.row_stride << ", displaced " << m.displaced);
        INFO("schedule " << schedule);
        if (!prepare(k, how)) return false;
        const int status = topkit_select(&now, stream);
        settle(stream); /* first: where the executor refuses to go on, it says why */
        REQUIRE(status == TOPKIT_OK);
        verify();
        return true;
    }

    /* Every route with every combination of ties and order; on the executor with one order for each tie policy, by turns, and in a brief
     * program every other route with one of these two; AUTO, which is one of the other routes again, with one combination. */
    void check(int k) {
        static int turn, calls;
        const int before = runs, few = test_size(0, 1);
        calls++;
        for (int route : ROUTES) {
            turn++;
            if (BRIEF && route != TOPKIT_ROUTE_AUTO && (route + calls) % 2) continue;
            for (int n = 0; n < 6; n++) {
                const mode how = {route, n % 2, n / 2};
                if (route == TOPKIT_ROUTE_AUTO ? n != turn % 6 : few && how.order != (turn + how.ties) % 3) continue;
                if (BRIEF && how.ties != turn % 2) continue;
                if (!run(k, how)) break;
            }
        }
        REQUIRE(runs > before);
        REQUIRE(scores.still(m.scores));
        REQUIRE(lengths.still(m.lengths));
        REQUIRE(starts.still(m.starts));
    }

    /* The case's own statement of the answer where it is one set: is the oracle of the same opinion? */
    template <class F> void answer_is(int k, F selected) {
        answer_for(k);
        for (int r = 0; r < m.rows; r++) {
            int right = 0;
            const int wanted = k < m.length(r) ? k : m.length(r);
            for (int j = 0; j < wanted; j++) right += selected(r, oracle_pair_index(best[(size_t)r][(size_t)j])) ? 1 : 0;
            REQUIRE(right == wanted);
        }
    }

    topkit_select_params now = {}; /* of the latest prepare */
    std::unique_ptr<guarded> indices, values, workspace;

private:
    std::vector<std::vector<uint64_t>> best; /* (rows) the k best or more, of the present contents */
    int best_k = 0;

    void answer_for(int k) {
        if (!best.empty() && best_k >= k) return;
        best.clear();
        for (int r = 0; r < m.rows; r++) best.push_back(oracle_best(m.row(r), m.length(r), k));
        best_k = k;
    }

    static bool provide(std::unique_ptr<guarded> *buffer, size_t bytes) {
        if (*buffer && (*buffer)->bytes == bytes) return false;
        buffer->reset(new guarded(bytes));
        return true;
    }

    /* Between the rows' results nothing is written; stride 0: nowhere. */
    template <class T> bool gaps_kept(const std::vector<T> &out, long long stride) const {
        for (size_t i = 0; i < out.size(); i++) {
            if ((stride == 0 || (long long)i % stride >= now.k) && (uint32_t)out[i] != PREFILL) return false;
        }
        return true;
    }
};

#endif
