/* plan.c: see plan.h. */
#include "plan.h"

#include <stdbool.h>

/* What the kernels can do, and what was fastest. Their own numbers are in plan.h. */
enum {
    ROW_BLOCKS_PER_SM = 2,    /* what its registers allow */
    ROW_MIN_CAPACITY = 8192,  /* four times a k of 2048: a proposal for 2k scores overfills it once in a million rows */
    PIPELINED_SHORT = 32768,  /* of rows from here on, up to PIPELINED_LONG, what is collected binds them: twice as dense a sample makes */
    PIPELINED_LONG = 65536,   /* .. it a fifth less, 2 to 5 % of the time. Of shorter ones a larger sample takes longer than it saves */
    SPLIT_MIN_PART = 1024,    /* scores that a block of a split row gets at the least */
    SPLIT_FEW_SCORES = 8192,  /* a block with no more has half of the threads, and a cluster whose blocks have no more is of 8 at most */
    SPLIT_RESIDENT_PART = 32768, /* parts of no more lie in shared memory whole */
    SPLIT_CLUSTER_PART = 32768, /* in a cluster from here on, twice as many blocks that meet in memory, which takes 2 us more, are faster */
    SPLIT_PARTS = 64,           /* of them; a column to read from each ends what they gain */
    SPLIT_LONG_PARTS = 128,     /* .. of rows of more than SPLIT_LONG_ROW */
    SPLIT_LONG_ROW = 2097152,
    SPLIT_MAX_DEPTH = 4,
    DIRECT_MAX_RESIDENT = 4,  /* what its registers allow */
    DIRECT_MAX_LENGTH = 65000, /* positions are 16 bits */
    DIRECT_FEW_SCORES = 8192,  /* of rows of no more, 256 threads a block take least, however few there are */
    HEADER_COUNTERS = (TOPKIT_WORKSPACE_HEADER - 16) / 4, /* behind the queue */
    ANY_K_CAPACITY = 6144,       /* more than a bin of the first count has, up to rows of many million scores */
    ANY_K_LEAST_CAPACITY = 1024, /* less would mean more counts */
    ANY_K_MIN_PART = 4096,       /* scores that a block of a row in parts gets at the least */
    ANY_K_MAX_SORTED = 16384,    /* order by score: what the row kernel can hold */
    AUTO_ROW_K = 8192,          /* AUTO still takes the row route up to this k, where the one for any took 1.6 times as long, */
    AUTO_LONG_ROW_K = 17408,    /* .. and up to this one of rows that are so many times as long, where it took 1.3 times as long: */
    AUTO_LONG_ROW = 10,         /* .. of 8 times as many scores 0.9 times as long. Beyond, its buffer has no room for a poor guess */
    AUTO_SPLIT_K = 18432,       /* .. and split rows up to this one, whose buffers can be compacted a few times */
    AUTO_PIPELINED_K = 3584,    /* with larger k, 02's buffers are compacted so often that the row kernel is faster, but of many rows */
    AUTO_SPLIT_FEW = 12288,   /* AUTO splits rows that are longer where all can have clusters of 4, */
    AUTO_SPLIT_SOME = 16384,  /* .. and those that are longer than this where all can have clusters of 2; */
    AUTO_DIRECT_FEW = 32768,  /* else it takes the direct route up to this length with at most one row a multiprocessor, */
    AUTO_DIRECT_SOME = 28672, /* .. up to this one with at most three, */
    AUTO_DIRECT_MANY = 24576, /* and with more, of which two must lie on chip together */
    SYSTEM_SHARED = 1024      /* of each resident block */
};

static int at_most(int a, int b) { return a < b ? a : b; }

/* topkit_sort_room: k candidates, and 3 bytes for each. */
static int sort_room(int k) { return k + ((k + 3) / 4 * 4 + k * 2 + 7) / 8; }

/* What the row kernel's buffer must hold at the least: k and a tile (of 16-bit scores, the larger one), so that a compaction makes room,
 * and what the sorter needs. */
static int row_least_capacity(int k, int order) {
    return order != TOPKIT_ORDER_NONE && sort_room(k) > k + 1024 ? sort_room(k) : k + 1024;
}

static bool can_pipeline(int k, const topkit_device_facts *device) {
    return device->arch >= 90 && device->shared_per_block >= TOPKIT_PLAN_PIPELINED_SHARED &&
           device->shared_per_sm >= TOPKIT_PLAN_PIPELINED_SHARED + SYSTEM_SHARED &&
           device->threads_per_sm >= TOPKIT_PLAN_PIPELINED_THREADS && k <= TOPKIT_PLAN_MAX_K;
}

static int plan_pipelined(const topkit_device_facts *device, int rows, int max_length, int k, topkit_plan *p) {
    if (!can_pipeline(k, device)) return TOPKIT_ERROR_DEVICE;
    p->threads = TOPKIT_PLAN_PIPELINED_THREADS;
    p->capacity = TOPKIT_PLAN_PIPELINED_CAPACITY;
    p->shared_bytes = TOPKIT_PLAN_PIPELINED_SHARED;
    p->blocks = at_most(rows, device->sm_count);
    p->density = max_length >= PIPELINED_SHORT && max_length <= PIPELINED_LONG ? 32 : 64;
    p->width = 16;
    return TOPKIT_OK;
}

/* .. a multiprocessor, of the row kernel or of any k. */
static int resident_blocks(const topkit_device_facts *device, const topkit_plan *p) {
    const int resident = at_most(device->shared_per_sm / (p->shared_bytes + SYSTEM_SHARED), device->threads_per_sm / p->threads);
    return at_most(resident, ROW_BLOCKS_PER_SM);
}

/* Blocks of the row kernel or of any k: `fixed` bytes and `capacity` candidates, where so many fit, but no fewer than `least`. */
static int plan_blocks(const topkit_device_facts *device, int rows, int fixed, int capacity, int least, topkit_plan *p) {
    p->threads = TOPKIT_PLAN_ROW_THREADS;
    const int fits = device->shared_per_block > fixed ? (device->shared_per_block - fixed) / 8 / 512 * 512 : 0;
    p->capacity = at_most(capacity, fits); /* a smaller buffer is compacted, or counted for, more often: slower, never wrong */
    if (p->capacity < least) return TOPKIT_ERROR_DEVICE;
    p->shared_bytes = fixed + p->capacity * 8;
    const int resident = resident_blocks(device, p);
    if (resident < 1) return TOPKIT_ERROR_DEVICE;
    p->blocks = at_most(rows, device->sm_count * resident);
    return TOPKIT_OK;
}

static int row_capacity(int k) { return 3 * k > ROW_MIN_CAPACITY ? (3 * k + 511) / 512 * 512 : ROW_MIN_CAPACITY; }

/* Any k by score too, whose rows the row kernel serves with a larger buffer. */
static int plan_row(const topkit_device_facts *device, int rows, int k, int order, topkit_plan *p) {
    return plan_blocks(device, rows, TOPKIT_PLAN_ROW_FIXED_SHARED, row_capacity(k), row_least_capacity(k, order), p);
}

/* Blocks that run at a time in clusters of a size, one a multiprocessor. A cluster lies in one graphics processing cluster, of 16 or 18
 * multiprocessors and some of fewer: the H200, of 132, takes 7 clusters of 16, 15 of 8, 30 of 4 and 66 of 2 (asked of the runtime). */
static long long cluster_fits(const topkit_device_facts *device, int cluster) {
    const long long sms = device->sm_count;
    return cluster > 8 ? sms * 6 / 7 : cluster > 2 ? sms * 10 / 11 : sms;
}

/* The largest cluster that every row can have at the same time, `resident` of its blocks a multiprocessor, each with a part that pays. */
static int cluster_size(const topkit_device_facts *device, int rows, int max_length, int resident, int min_part) {
    int cluster = device->arch >= 90 ? 16 : 1;
    while (cluster > 1 && (rows * (long long)cluster > cluster_fits(device, cluster) * resident || max_length / cluster < min_part))
        cluster /= 2;
    return cluster;
}

/* Few rows get as many blocks each as fit at a time, in clusters. */
static int plan_any_k(const topkit_device_facts *device, int rows, int max_length, int k, int order, topkit_plan *p) {
    if (order == TOPKIT_ORDER_SCORE) return plan_row(device, rows, k, order, p);
    p->density = 32;
    const int status = plan_blocks(device, rows, TOPKIT_PLAN_ANY_K_FIXED_SHARED, ANY_K_CAPACITY, ANY_K_LEAST_CAPACITY, p);
    if (status != TOPKIT_OK) return status;
    p->parts = p->cluster = cluster_size(device, rows, max_length, resident_blocks(device, p), ANY_K_MIN_PART);
    if (p->cluster > 1) p->blocks = rows * p->cluster;
    return TOPKIT_OK;
}

/* As many blocks a row as fill the machine, one a multiprocessor, each with enough to do: those of a cluster, or, of parts so long that it
 * pays, as many as there are. */
static void split_parts(const topkit_device_facts *device, int rows, int max_length, topkit_plan *p) {
    p->cluster = cluster_size(device, rows, max_length, 1, SPLIT_MIN_PART);
    if (p->cluster > 8 && max_length / 8 <= SPLIT_FEW_SCORES) p->cluster = 8;
    const int most = at_most(device->sm_count / rows, max_length > SPLIT_LONG_ROW ? SPLIT_LONG_PARTS : SPLIT_PARTS);
    const bool meets = rows <= HEADER_COUNTERS && max_length / p->cluster >= SPLIT_CLUSTER_PART && most >= 2 * p->cluster;
    p->parts = meets ? most : p->cluster;
}

/* Scores that a part's place must hold: whole tiles, and what lies before the first and behind the last vector. */
static int split_place(int max_length, int parts) { return (max_length / 512 + parts) / parts * 512 + 8; }

static bool split_is_resident(int max_length, int parts) { /* a part may be a tile and the edges longer than the row's share */
    return parts > 1 && split_place(max_length, parts) <= SPLIT_RESIDENT_PART + 520;
}

/* Shared memory of parts that lie there whole, and what puts k candidates in order. */
static int split_order_room(int k, int order) { return order == TOPKIT_ORDER_NONE ? 0 : (sort_room(k) + 15) / 16 * 16; }
static long long resident_shared(int max_length, int k, int order, int parts) {
    return TOPKIT_PLAN_SPLIT_FIXED_SHARED + split_order_room(k, order) * 8LL + split_place(max_length, parts) * 4LL;
}

/* Parts that are read by tiles, and a buffer of candidates. */
static int plan_tiles(const topkit_device_facts *device, int k, int order, topkit_plan_tiles *tiles) {
    const int room = device->shared_per_block - TOPKIT_PLAN_SPLIT_FIXED_SHARED;
    if (room < TOPKIT_PLAN_SPLIT_TILES_SHARED || k > room / 8) return TOPKIT_ERROR_DEVICE;
    tiles->capacity = at_most(row_capacity(k), (room - TOPKIT_PLAN_SPLIT_TILES_SHARED) / 8 / 512 * 512);
    if (tiles->capacity < row_least_capacity(k, order)) return TOPKIT_ERROR_DEVICE;
    tiles->depth = at_most((room - tiles->capacity * 8) / TOPKIT_PLAN_SPLIT_TILES_SHARED, SPLIT_MAX_DEPTH);
    tiles->shared_bytes = TOPKIT_PLAN_SPLIT_FIXED_SHARED + tiles->capacity * 8 + tiles->depth * TOPKIT_PLAN_SPLIT_TILES_SHARED;
    return TOPKIT_OK;
}

static void take_tiles(topkit_plan *p) {
    p->capacity = p->tiles.capacity;
    p->depth = p->tiles.depth;
    p->shared_bytes = p->tiles.shared_bytes;
}

static int plan_split(const topkit_device_facts *device, int rows, int max_length, int k, int order, topkit_plan *p) {
    if (TOPKIT_PLAN_SPLIT_THREADS > device->threads_per_sm || device->shared_per_block + SYSTEM_SHARED > device->shared_per_sm)
        return TOPKIT_ERROR_DEVICE;
    split_parts(device, rows, max_length, p);
    const int status = plan_tiles(device, k, order, &p->tiles);
    if (status != TOPKIT_OK) p->parts = p->cluster; /* a cooperative launch would have nothing to fall back to */
    if (split_is_resident(max_length, p->parts) && resident_shared(max_length, k, order, p->parts) <= device->shared_per_block) {
        p->capacity = split_order_room(k, order);
        p->depth = 0;
        p->shared_bytes = (int)resident_shared(max_length, k, order, p->parts);
    } else {
        if (status != TOPKIT_OK) return status;
        take_tiles(p);
    }
    if (p->parts > p->cluster) {
        p->slot = TOPKIT_PLAN_SPLIT_TEAM_ROW + (long long)p->parts * TOPKIT_PLAN_SPLIT_TEAM_PART;
        if (order != TOPKIT_ORDER_NONE) p->slot += (k + 1) / 2 * 16LL;
        p->workspace_bytes = TOPKIT_WORKSPACE_HEADER + (size_t)rows * (size_t)p->slot;
    }
    p->threads = max_length / p->parts <= SPLIT_FEW_SCORES ? TOPKIT_PLAN_SPLIT_THREADS / 2 : TOPKIT_PLAN_SPLIT_THREADS;
    p->blocks = rows * p->parts; /* one part, or no more than there are multiprocessors */
    p->width = 8; /* one sector: every block reads the sample */
    return TOPKIT_OK;
}

/* A row as it lies in shared memory (topkit_resident_bytes), a list of `capacity` positions behind it, and what puts them in order. */
static int direct_shared(int max_length, int k, int order, int capacity) {
    const int room = order == TOPKIT_ORDER_SCORE ? sort_room(k) * 8 : order == TOPKIT_ORDER_INDEX ? (max_length + 31) / 32 * 4 : 0;
    return TOPKIT_PLAN_DIRECT_FIXED_SHARED + (room + 127) / 128 * 128 + (max_length + 6) / 4 * 16 + capacity * 2;
}

/* Blocks a multiprocessor: the more there are, the fewer threads need wait for each other. */
static int plan_direct(const topkit_device_facts *device, int rows, int max_length, int k, int order, topkit_plan *p) {
    if (max_length > DIRECT_MAX_LENGTH) return TOPKIT_ERROR_OPTION;
    p->capacity = (at_most(k, max_length) + 7) / 8 * 8;
    p->shared_bytes = direct_shared(max_length, k, order, p->capacity);
    if (p->shared_bytes > device->shared_per_block) return TOPKIT_ERROR_OPTION;
    if (p->shared_bytes + SYSTEM_SHARED > device->shared_per_sm || TOPKIT_PLAN_DIRECT_THREADS > device->threads_per_sm)
        return TOPKIT_ERROR_DEVICE;
    /* Of as many blocks a multiprocessor as fit, those whose rounds take least. How long one takes with 1 to 4 of them was measured of an
     * earlier form of the kernel: three take 1.3 times as long as two now, not 1.4. */
    static const int cost[] = {0, 6, 8, 11, 14};
    const int most = at_most(device->shared_per_sm / (p->shared_bytes + SYSTEM_SHARED), DIRECT_MAX_RESIDENT);
    int resident = 1;
    long long least = 0;
    for (int n = 1; n <= most; n++) {
        const long long blocks = (long long)n * device->sm_count, time = (rows + blocks - 1) / blocks * cost[n];
        if (n == 1 || time < least) {
            resident = n;
            least = time;
        }
    }
    /* Two at a time, more than twice: what they issue counts, not how long one takes, but where they sort. */
    const bool rounds = resident == 2 && rows > 4 * device->sm_count && order != TOPKIT_ORDER_SCORE;
    p->threads = TOPKIT_PLAN_DIRECT_THREADS / (resident > 2 || rounds || max_length <= DIRECT_FEW_SCORES ? 2 : 1);
    p->blocks = at_most(rows, device->sm_count * resident);
    return TOPKIT_OK;
}

/* What was fastest on an H200 (docs/performance.md has the table); on devices that are not alike it is as good a guess as any. */
static int auto_route(const topkit_device_facts *device, int rows, int max_length, int k, int order) {
    if (k > TOPKIT_PLAN_MAX_K) {
        const bool few = device->arch >= 90 && rows <= device->sm_count && order != TOPKIT_ORDER_SCORE;
        if (few && order == TOPKIT_ORDER_NONE && max_length > AUTO_DIRECT_FEW) {
            topkit_plan parts;
            split_parts(device, rows, max_length, &parts);
            if (k <= AUTO_SPLIT_K || split_is_resident(max_length, parts.cluster)) return TOPKIT_ROUTE_SPLIT;
        }
        if (few && rows <= device->sm_count / 2) return TOPKIT_ROUTE_ANY_K;
        const bool long_rows = k <= AUTO_LONG_ROW_K && k <= max_length / AUTO_LONG_ROW && order == TOPKIT_ORDER_NONE;
        return k <= AUTO_ROW_K || long_rows ? TOPKIT_ROUTE_ROW : TOPKIT_ROUTE_ANY_K;
    }
    const int each = (rows - 1) / device->sm_count + 1; /* rows a multiprocessor */
    const bool fours = 4LL * rows <= cluster_fits(device, 4), twos = 2LL * rows <= cluster_fits(device, 2);
    if (device->arch >= 90 && ((fours && max_length > AUTO_SPLIT_FEW) || (twos && max_length > AUTO_SPLIT_SOME))) return TOPKIT_ROUTE_SPLIT;
    if (max_length <= (each <= 1 ? AUTO_DIRECT_FEW : each <= 3 ? AUTO_DIRECT_SOME : AUTO_DIRECT_MANY)) return TOPKIT_ROUTE_DIRECT;
    if (each <= 1) return device->arch >= 90 ? TOPKIT_ROUTE_SPLIT : TOPKIT_ROUTE_ROW;
    const bool pipelines = each > 2 && (k <= AUTO_PIPELINED_K || each > 8);
    return pipelines && can_pipeline(k, device) ? TOPKIT_ROUTE_PIPELINED : TOPKIT_ROUTE_ROW;
}

static int plan_route(const topkit_device_facts *device, int rows, int max_length, int k, int order, int route, topkit_plan *plan) {
    topkit_plan p = {0};
    int status;
    p.route = route;
    p.density = 128;
    p.width = 4;
    p.cluster = p.parts = 1;
    p.early_start = device->arch >= 90;
    p.shared_limit = device->shared_per_block;
    p.workspace_bytes = TOPKIT_WORKSPACE_HEADER + (size_t)rows * 4;
    switch (route) {
        case TOPKIT_ROUTE_PIPELINED: status = plan_pipelined(device, rows, max_length, k, &p); break;
        case TOPKIT_ROUTE_SPLIT: status = plan_split(device, rows, max_length, k, order, &p); break;
        case TOPKIT_ROUTE_DIRECT: status = plan_direct(device, rows, max_length, k, order, &p); break;
        case TOPKIT_ROUTE_ANY_K: status = plan_any_k(device, rows, max_length, k, order, &p); break;
        default: status = plan_row(device, rows, k, order, &p); break;
    }
    if (status == TOPKIT_OK) *plan = p;
    return status;
}

int topkit_make_plan(int rows, int max_length, int k, int order, int route, const topkit_device_facts *device, topkit_plan *plan) {
    if (!device || !plan) return TOPKIT_ERROR_POINTER;
    if (rows < 0 || rows > TOPKIT_MAX_ROWS || max_length < 0 || max_length > TOPKIT_MAX_LENGTH) return TOPKIT_ERROR_SHAPE;
    if (k < 0 || k > TOPKIT_MAX_LENGTH) return TOPKIT_ERROR_K;
    if (order < TOPKIT_ORDER_NONE || order > TOPKIT_ORDER_SCORE) return TOPKIT_ERROR_OPTION;
    if (route < TOPKIT_ROUTE_AUTO || route > TOPKIT_ROUTE_ANY_K) return TOPKIT_ERROR_OPTION;
    const bool any_k = route == TOPKIT_ROUTE_ANY_K || (route == TOPKIT_ROUTE_AUTO && k > TOPKIT_PLAN_MAX_K);
    if (any_k ? order == TOPKIT_ORDER_SCORE && k > ANY_K_MAX_SORTED : k > TOPKIT_PLAN_MAX_K) return TOPKIT_ERROR_K;
    if (rows == 0 || k == 0) {
        const topkit_plan nothing = {0};
        *plan = nothing;
        return TOPKIT_OK;
    }
    if (device->arch < 80 || device->sm_count < 1) return TOPKIT_ERROR_DEVICE;
    if (route != TOPKIT_ROUTE_AUTO) return plan_route(device, rows, max_length, k, order, route, plan);
    const int best = auto_route(device, rows, max_length, k, order), last = k > TOPKIT_PLAN_MAX_K ? TOPKIT_ROUTE_ANY_K : TOPKIT_ROUTE_ROW;
    const int status = plan_route(device, rows, max_length, k, order, best, plan);
    return status == TOPKIT_OK || best == last ? status : plan_route(device, rows, max_length, k, order, last, plan); /* needs least */
}

void topkit_plan_clusters(topkit_plan *plan, int rows) {
    if (plan->parts == plan->cluster) return;
    plan->parts = plan->cluster;
    take_tiles(plan);
    plan->slot = 0;
    plan->blocks = rows * plan->cluster;
    plan->workspace_bytes = TOPKIT_WORKSPACE_HEADER + (size_t)rows * 4;
}

int topkit_plan_within(topkit_plan *plan, int rows, size_t bytes) {
    topkit_plan p = *plan;
    if (bytes < p.workspace_bytes) topkit_plan_clusters(&p, rows);
    if (bytes < p.workspace_bytes) return TOPKIT_ERROR_WORKSPACE;
    *plan = p;
    return TOPKIT_OK;
}

int topkit_score_route(int score_type, int *route) {
    if (score_type < TOPKIT_SCORE_F32 || score_type > TOPKIT_SCORE_F16) return TOPKIT_ERROR_SCORE_TYPE;
    if (score_type == TOPKIT_SCORE_F32) return TOPKIT_OK;
    if (*route < TOPKIT_ROUTE_AUTO || *route > TOPKIT_ROUTE_ANY_K) return TOPKIT_ERROR_OPTION;
    if (*route == TOPKIT_ROUTE_AUTO) *route = TOPKIT_ROUTE_ROW;
    return *route == TOPKIT_ROUTE_ROW ? TOPKIT_OK : TOPKIT_ERROR_SCORE_TYPE;
}

const char *topkit_status_text(int status) {
    switch (status) {
        case TOPKIT_OK: return "success";
        case TOPKIT_ERROR_POINTER: return "a required pointer is null or not aligned to its elements";
        case TOPKIT_ERROR_SHAPE: return "rows or max_length is negative or above TOPKIT_MAX_ROWS or TOPKIT_MAX_LENGTH";
        case TOPKIT_ERROR_K: return "k is negative or above what the route supports in this order";
        case TOPKIT_ERROR_STRIDE: return "row_stride is negative, index_stride or value_stride is below k, or column_stride is not 1";
        case TOPKIT_ERROR_SCORE_TYPE: return "scores of that type are not read, or not by that route";
        case TOPKIT_ERROR_OPTION: return "ties, order or route is not one of the supported values, or the route does not take rows so long";
        case TOPKIT_ERROR_WORKSPACE:
            return "the workspace is null, not aligned to 16 bytes or smaller than topkit_select_workspace asks for";
        case TOPKIT_ERROR_DEVICE: return "no CUDA device, or one that is older than compute capability 8.0 or has too little shared memory";
        case TOPKIT_ERROR_LAUNCH: return "the CUDA runtime refused the launch";
        default: return "unknown status";
    }
}
