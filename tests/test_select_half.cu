/* test_select_half.cu: the operator on bfloat16 and fp16 scores: values, shapes, memory, arguments.
 *
 * A matrix of select_case.h holds the scores' floats, for the oracle, which knows floats alone; the device gets the 16-bit scores. Values
 * come back as 16-bit scores and are checked as the floats that they stand for: no two scores of a type stand for the same bits.
 */
#include "01_row_select.cuh"
#include "half_formats.h"
#include "sampled.h"
#include "select_case.h"
#include "topkit/half.cuh"

#ifdef TOPKIT_SIMT
#include <sys/mman.h>
#include <unistd.h>
#endif

static const half_format *const FORMATS[] = {&half_bf16, &half_f16};

struct half_trial {
    const half_format &format;
    matrix m;
    std::vector<uint16_t> halves; /* m.scores in the format */
    exact<uint16_t> scores;
    exact<int> lengths, starts;
    const void *elsewhere = nullptr; /* the scores lie there, not in `scores` */
    long long index_stride = 0, value_stride = 0;
    bool wants_values = true;
    unsigned seed = 1;
    topkit_select_params now = {};
    std::unique_ptr<guarded> indices, values, workspace;

    half_trial(const half_format &f, const matrix &input)
        : format(f), m(input), halves(narrowed(f, input.scores)), scores(halves, (size_t)m.displaced), lengths(m.lengths),
          starts(m.starts) {}

    static std::vector<uint16_t> narrowed(const half_format &f, const std::vector<float> &floats) {
        std::vector<uint16_t> all;
        for (float score : floats) all.push_back(half_narrowed(f, oracle_bits(score)));
        return all;
    }

    void prepare(int k, mode how) {
        now = {};
        now.scores = elsewhere ? elsewhere : scores.data;
        now.score_type = format.score_type;
        now.row_stride = m.row_stride;
        now.row_starts = starts.data;
        now.lengths = lengths.data;
        now.rows = m.rows;
        now.max_length = m.max_length;
        now.k = k;
        now.ties = how.ties;
        now.order = how.order;
        now.route = how.route;
        now.seed = seed;
        now.index_stride = index_stride;
        now.value_stride = value_stride;
        REQUIRE(topkit_select_workspace(&now, &now.workspace_bytes) == TOPKIT_OK);
        const long long is = index_stride ? index_stride : k, vs = value_stride ? value_stride : k;
        indices.reset(new guarded((size_t)((m.rows - 1) * is + k) * 4));
        values.reset(new guarded((size_t)((m.rows - 1) * vs + k) * 2));
        workspace.reset(new guarded(now.workspace_bytes));
        indices->fill(PREFILL_BYTE);
        values->fill(PREFILL_BYTE);
        workspace->fill(0);
        now.indices = (int *)indices->data;
        now.values = wants_values ? values->data : nullptr;
        now.workspace = workspace->data;
    }

    void verify() {
        std::vector<int> got;
        std::vector<uint16_t> shorts;
        std::vector<unsigned char> rest;
        std::vector<uint32_t> bits;
        REQUIRE(indices->read(&got));
        REQUIRE(values->read(&shorts));
        REQUIRE(workspace->read(&rest));
        for (uint16_t h : shorts) bits.push_back(half_widened(format, h));
        const long long is = index_stride ? index_stride : now.k, vs = value_stride ? value_stride : now.k;
        for (int r = 0; r < m.rows; r++) {
            const std::vector<uint64_t> best = oracle_best(m.row(r), m.length(r), now.k);
            const std::string fault =
                oracle_fault(m.row(r), m.length(r), best, now.k, got.data() + r * is, wants_values ? bits.data() + r * vs : nullptr,
                             now.ties == TOPKIT_TIES_LOWEST_INDEX, now.order);
            if (!fault.empty()) FAIL("row " << r << " of length " << m.length(r) << ": " << fault);
        }
        for (size_t i = 0; i < got.size(); i++) REQUIRE(((long long)i % is < now.k || (uint32_t)got[i] == PREFILL));
        for (size_t i = 0; i < shorts.size(); i++) REQUIRE(((wants_values && (long long)i % vs < now.k) || shorts[i] == 0x7f7f));
    }

    void run(int k, mode how) {
        const std::string schedule = next_schedule();
        INFO(format.name << ", route " << how.route << ", ties " << how.ties << ", order " << how.order << ", k " << k << ", rows "
                         << m.rows);
        INFO("max_length " << m.max_length << ", row_stride " << m.row_stride << ", displaced " << m.displaced);
        INFO("schedule " << schedule);
        prepare(k, how);
        const int status = topkit_select(&now, nullptr);
        settle(nullptr);
        REQUIRE(status == TOPKIT_OK);
        verify();
    }

    /* Both tie policies and all orders; on the executor one order for each tie policy, by turns. AUTO is the row route: by turns too. */
    void check(int k) {
        static int turn;
        turn++;
        for (int n = 0; n < 6; n++) {
            const mode how = {(turn + n) % 2 ? TOPKIT_ROUTE_AUTO : TOPKIT_ROUTE_ROW, n % 2, n / 2};
            if (test_size(0, 1) && how.order != (turn + how.ties) % 3) continue;
            run(k, how);
        }
        REQUIRE(scores.still(halves));
    }
};

/* A matrix by its 16-bit scores, with +inf wherever no row lies. */
template <class F>
static void fill_halves(matrix *m, const half_format &f, F formula) {
    m->fill([&](int r, int i) { return bits_float(half_widened(f, (uint32_t)formula(r, i) & 0xffffu)); },
            bits_float(half_widened(f, half_infinity(f))));
}

template <class F>
static matrix halves_of(const half_format &f, int rows, int n, F formula) {
    matrix m;
    m.rows = rows;
    m.max_length = n;
    m.row_stride = n;
    fill_halves(&m, f, formula);
    return m;
}

TEST_CASE("half: all 65536 scores of a type in one row") {
    for (const half_format *f : FORMATS) {
        half_trial t(*f, halves_of(*f, 2, 65536, [](int r, int i) { return permuted(65536, r, i); }));
        for (int k : {1, 127, 256, 2048, 4096}) t.check(k);
    }
}

TEST_CASE("half: each of the 65536 scores comes back with its own bits, from a copied row, a sorted one and a selected one") {
    for (const half_format *f : FORMATS) {
        for (int n : {4096, 4097}) { /* rows of k scores and of one more, which is a zero in the middle of all */
            half_trial t(*f, halves_of(*f, 16, n, [=](int r, int i) { return i == 4096 ? 0 : r * 4096 + permuted(4096, r, i); }));
            for (int order : {TOPKIT_ORDER_NONE, TOPKIT_ORDER_INDEX, TOPKIT_ORDER_SCORE}) t.run(4096, {TOPKIT_ROUTE_ROW, order % 2, order});
        }
    }
}

TEST_CASE("half: any base, the last row ends with its allocation") {
    for (const half_format *f : FORMATS) {
        for (int displaced = 0; displaced < 8; displaced++) {
            for (int n : {1, 2, 7, 8, 9, 15, 1021, 4093, 10007}) {
                if ((n < 100 || BRIEF) && (n + displaced) % 2) continue;
                matrix m = halves_of(*f, 3, n, [n](int r, int i) { return 0x3000 + permuted(n, r, i); });
                m.displaced = displaced;
                half_trial t(*f, m);
                t.check(n < 512 ? (n + 1) / 2 : 512);
            }
        }
    }
}

#ifdef TOPKIT_SIMT
/* A row that ends at the last byte of its page, or begins at the first: the pages beside it can not be touched. */
TEST_CASE("half: guard pages at both ends of a row") {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 6;
    unsigned char *all = (unsigned char *)mmap(nullptr, (pages + 2) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE((void *)all != MAP_FAILED);
    unsigned char *first = all + page, *behind = first + pages * page;
    REQUIRE(mprotect(all, page, PROT_NONE) == 0);
    REQUIRE(mprotect(behind, page, PROT_NONE) == 0);
    for (const half_format *f : FORMATS) {
        for (int n : {1, 5, 8, 1023, 1025, 9001, 12285}) {
            half_trial t(*f, halves_of(*f, 1, n, [n](int r, int i) { return 0x3000 + permuted(n, r, i); }));
            for (unsigned char *at : {first, behind - 2 * n}) {
                memcpy(at, t.halves.data(), 2 * (size_t)n);
                t.elsewhere = at;
                t.check(n < 300 ? n : 300);
            }
        }
    }
    munmap(all, (pages + 2) * page);
}
#endif

TEST_CASE("half: odd strides, windows, lengths on the device, gaps in the outputs") {
    for (const half_format *f : FORMATS) {
        for (int start : {0, 1, 3, 4097}) {
            matrix m;
            m.rows = test_size(67, 7);
            m.max_length = 9000;
            m.row_stride = 9000 + start + (start ? 0 : 5);
            for (int r = 0; r < m.rows; r++) {
                const int lengths[] = {9000, 0, -5, 511, 513, 8193, 20000};
                m.lengths.push_back(lengths[r % 7]);
                if (start) m.starts.push_back(start);
            }
            fill_halves(&m, *f, [](int r, int i) { return hashed(r, i); });
            half_trial t(*f, m);
            t.index_stride = start ? 600 : 0;
            t.value_stride = start ? 513 : 0;
            t.wants_values = start != 3;
            t.check(512);
        }
        matrix overlapping;
        overlapping.rows = 5;
        overlapping.max_length = 8999;
        overlapping.row_stride = 1;
        fill_halves(&overlapping, *f, [](int r, int i) { return hashed(1, r + i); });
        half_trial t(*f, overlapping);
        t.check(100);
    }
}

TEST_CASE("half: few values, plateaus, zeros of both signs, infinities, NaNs, denormals") {
    const int n = test_size(131072, 20000);
    for (const half_format *f : FORMATS) {
        const uint32_t inf = half_infinity(*f);
        for (int kind = 0; kind < 9; kind++) {
            INFO("kind " << kind);
            half_trial t(*f, halves_of(*f, test_size(8, 1), n, [=](int r, int i) -> uint64_t {
                const uint64_t h = hashed(r + kind, i);
                switch (kind) {
                    case 0: return 0x3c00;                                               /* one value */
                    case 1: return h & 1 ? 0x8000 : 0;                                   /* zeros */
                    case 2: return h % 50 ? 0x8000 | inf : 0x3c00 + h / 64 % 100;        /* few finite ones */
                    case 3: return h % 50 ? inf + 1 + h / 64 % 60 : 0x3c00 + h / 64 % 9; /* few numbers */
                    case 4: return h % 3 ? inf | (h & 0x8000) : 0x7fff;                  /* infinities and NaNs */
                    case 5: return h & (0x8000 | ((1u << f->mantissa) - 1));             /* denormals */
                    case 6: return i < n - 700 ? 0x8001 : h & 0x8000;                    /* a plateau, and the next score last */
                    case 7: return i < n - 700 ? 0x7bff : 0x7c00;                        /* likewise: the largest fp16 */
                    default: return 0x3c00 + h % 3;
                }
            }));
            t.check(2048);
            t.check(kind % 2 ? 1 : 699);
        }
    }
}

/* A full buffer asks for strictly better scores: what comes last is one step of the type better, at every kind of step. */
TEST_CASE("half: a plateau wider than any buffer, and behind it the next score") {
    const int n = test_size(131072, 12000);
    for (const half_format *f : FORMATS) {
        const uint32_t inf = half_infinity(*f), normal = 1u << f->mantissa;
        std::vector<std::pair<uint32_t, uint32_t>> steps = {{0x3c00, 0x3c01},     {0xbc01, 0xbc00},
                                                            {0x8000, 1},          {0, 1},
                                                            {0x8001, 0},          {0x8001, 0x8000},
                                                            {normal - 1, normal}, {0x8000 | normal, 0x8000 | (normal - 1)},
                                                            {inf - 1, inf},       {0x8000 | inf, 0x8000 | (inf - 1)}};
        if (TOPKIT_NAN == TOPKIT_NAN_HIGHEST) steps.push_back({inf, 0xffff});
        else steps.push_back({inf + 1, 0x8000 | inf});
        for (auto step : steps) {
            INFO(f->name << ": " << step.first << " and then " << step.second);
            half_trial t(*f, halves_of(*f, 1, n, [=](int, int i) { return i < n - 700 ? step.first : step.second; }));
            t.check(701);
            t.check(700);
        }
    }
}

TEST_CASE("half: sorted rows, and samples that see only the best or only the worst") {
    const int n = test_size(131072, 30000);
    for (const half_format *f : FORMATS) {
        for (int kind = 0; kind < 4; kind++) {
            if (BRIEF && kind % 2) continue;
            half_trial t(*f, halves_of(*f, 1, n, [=](int, int i) {
                const int step = (int)((long long)i * 0x7000 / n), vector = i / 8 % 128;
                return kind == 0                           ? step
                       : kind == 1                         ? 0x7000 - step
                       : (vector % 16 == 5) == (kind == 2) ? 0x4000 + i % 256
                                                           : 0x3000 + i % 256;
            }));
            t.check(2048);
        }
        /* A row whose best are what one seed samples of it, as words of two scores. Under that seed it is read again, and under others
         * hardly ever: a sample that was not widened would mislead every row. */
        const int length = 20000;
        topkit_plan plan;
        REQUIRE(plan_here(1, length, 2048, TOPKIT_ORDER_NONE, TOPKIT_ROUTE_ROW, &plan) == TOPKIT_OK);
        for (bool known : {true, false}) {
            guarded stats(sizeof(topkit_select_stats));
            std::vector<topkit_select_stats> sum;
            stats.fill(0);
            for (unsigned seed = 1; seed <= 32; seed++) {
                const std::vector<bool> sampled = sampled_scores(length / 2, plan.density, plan.width, TOPKIT_ROW_SAMPLE / 2, seed, 0);
                half_trial t(*f, halves_of(*f, 1, length, [&](int r, int i) {
                    return (sampled[(size_t)i / 2] ? 0x5000 : 0x3000) + (int)(hashed(r, i) % 512);
                }));
                t.seed = known ? seed : seed + 1000;
                t.prepare(2048, {TOPKIT_ROUTE_ROW, (int)seed & 1, TOPKIT_ORDER_NONE});
                t.now.stats = (topkit_select_stats *)stats.data;
                REQUIRE(topkit_select(&t.now, nullptr) == TOPKIT_OK);
                settle(nullptr);
                t.verify();
            }
            REQUIRE(stats.read(&sum));
            REQUIRE(sum[0].rows == 32);
            REQUIRE((known ? sum[0].recoveries == 32 : sum[0].recoveries < 8));
        }
    }
}

TEST_CASE("half: random problems") {
    const int problems = BRIEF ? 50 : test_size(2000, 150);
    for (int number = 0; number < problems; number++) {
        uint64_t state = (uint64_t)number * 0x9e3779b97f4a7c15u;
        const auto below = [&](int most) { return (int)(mixed(state += 0x9e3779b97f4a7c15u) % (uint64_t)most); };
        const half_format &f = *FORMATS[number % 2];
        const int k = below(3) ? 1 + below(600) : 1 + below(4096), kind = below(4);
        matrix m;
        m.rows = 1 + below(6);
        m.max_length = below(4) ? below(12000) : below(test_size(70000, 20000));
        m.row_stride = m.max_length + below(9);
        m.displaced = below(8);
        for (int r = 0; r < m.rows; r++) {
            m.lengths.push_back(below(5) ? below(m.max_length + 3) : k + below(3) - 1);
            m.starts.push_back(below(20));
        }
        const uint64_t salt = (uint64_t)below(1 << 30);
        fill_halves(&m, f, [=](int r, int i) -> uint64_t {
            const uint64_t h = mixed(salt + hashed(r, i));
            return kind == 0 ? h : kind == 1 ? 0x3c00 + h % 7 : kind == 2 ? 0x3800 + h % 0x600 : 0xbc00u + (uint64_t)i * 3;
        });
        INFO("problem " << number << ", kind " << kind);
        half_trial t(f, m);
        t.index_stride = below(2) ? 0 : k + below(5);
        t.value_stride = below(2) ? 0 : k + below(5);
        t.wants_values = below(4) != 0;
        t.run(k, {below(2), below(2), below(3)});
        REQUIRE(t.scores.still(t.halves));
    }
}

TEST_CASE("half: wrong arguments") {
    for (const half_format *f : FORMATS) {
        half_trial t(*f, halves_of(*f, 2, 9000, [](int r, int i) { return hashed(r, i); }));
        t.prepare(512, {TOPKIT_ROUTE_AUTO, TOPKIT_TIES_ANY, TOPKIT_ORDER_NONE});
        const topkit_select_params good = t.now;
        const auto refused = [&](topkit_select_params p, int status) {
            std::vector<uint32_t> inside;
            REQUIRE(topkit_select(&p, nullptr) == status);
            settle(nullptr);
            for (const std::unique_ptr<guarded> *out : {&t.indices, &t.values}) {
                REQUIRE((*out)->read(&inside));
                for (uint32_t word : inside) REQUIRE(word == PREFILL);
            }
        };
        topkit_select_params p = good;
        p.scores = (const char *)good.scores + 1;
        refused(p, TOPKIT_ERROR_POINTER);
        p = good;
        p.values = (char *)good.values + 1;
        refused(p, TOPKIT_ERROR_POINTER);
        for (int route : {TOPKIT_ROUTE_PIPELINED, TOPKIT_ROUTE_SPLIT, TOPKIT_ROUTE_DIRECT}) {
            size_t bytes = 77;
            p = good;
            p.route = route;
            refused(p, TOPKIT_ERROR_SCORE_TYPE);
            REQUIRE(topkit_select_workspace(&p, &bytes) == TOPKIT_ERROR_SCORE_TYPE);
            REQUIRE(bytes == 77);
        }
        p = good;
        p.score_type = TOPKIT_SCORE_F16 + 1;
        refused(p, TOPKIT_ERROR_SCORE_TYPE);
        p = good;
        p.route = TOPKIT_ROUTE_ANY_K;
        refused(p, TOPKIT_ERROR_SCORE_TYPE);
        p = good;
        p.k = 4097;
        refused(p, TOPKIT_ERROR_K);
        for (int route : {-1, 17}) {
            p = good;
            p.route = route;
            refused(p, TOPKIT_ERROR_OPTION);
        }
        REQUIRE(topkit_select(&good, nullptr) == TOPKIT_OK);
        settle(nullptr);
        t.verify();
    }
}
