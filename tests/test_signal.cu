/* test_signal.cu: phases of a signal, and a ring of buffers between a producer and several consumers. */
#include "testing.h"
#include "topkit/signal.cuh"

/* Asks before each arrival whether its use is complete, and after the last. */
static __global__ void signal_phases(unsigned *out) {
    TOPKIT_SHARED(memory);
    topkit_signal *s = (topkit_signal *)memory;
    if (threadIdx.x == 0) {
        topkit_signal_init(s, 2);
        for (int arrivals = 0; arrivals < 4; arrivals++) {
            out[arrivals] = topkit_signal_test(s, arrivals / 2) || topkit_signal_test_for(s, arrivals / 2, 50);
            topkit_signal_arrive(s);
            if (arrivals == 1) topkit_signal_wait(s, 0); /* is complete; synccheck wants no use skipped */
        }
        out[4] = topkit_signal_test(s, 1) && topkit_signal_test_for(s, 1, 50);
        topkit_signal_wait(s, 1);
    }
}

TEST_CASE("signal: worked numbers") {
    under_all_schedules([] {
        device_buffer<unsigned> out(5);
        test_launch(1, 32, sizeof(topkit_signal), signal_phases, out.data);
        /* nothing, one arrival of use 0; nothing, one arrival of use 1; complete */
        REQUIRE(out.read() == std::vector<unsigned>{0, 0, 0, 0, 1});
    });
}

static __global__ void signal_first_use(unsigned *out) {
    TOPKIT_SHARED(memory);
    topkit_signal *s = (topkit_signal *)memory;
    if (threadIdx.x == 0) topkit_signal_init(s, 2);
    topkit_group_sync(topkit_group_block());
    if (threadIdx.x >= 32 && threadIdx.x % 32 == 0) topkit_signal_arrive(s); /* warps 1 and 2 */
    if (threadIdx.x < 32) {
        topkit_signal_wait(s, 0);
        out[threadIdx.x] = topkit_signal_test(s, 0);
    }
}

TEST_CASE("signal: a wait ends with the last arrival of its phase") {
    under_all_schedules([] {
        device_buffer<unsigned> out(32);
        test_launch(1, 96, sizeof(topkit_signal), signal_first_use, out.data);
        REQUIRE(out.read() == std::vector<unsigned>(32, 1));
    });
}

static const unsigned RING = 3;

struct signal_ring {
    topkit_signal full[RING], empty[RING];
    unsigned slots[RING][32];
};

/* Warp `producer` fills the slots in turn, the first `consumers` warps read each of them. Filled by 32 arrivals, emptied by one a warp. */
static __global__ void signal_pipeline(unsigned producer, unsigned consumers, unsigned rounds, unsigned *sums) {
    TOPKIT_SHARED(memory);
    signal_ring *ring = (signal_ring *)memory;
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (unsigned s = 0; s < RING; s++) {
            topkit_signal_init(&ring->full[s], 32);
            topkit_signal_init(&ring->empty[s], consumers);
        }
    }
    topkit_group_sync(topkit_group_block());
    if (warp == producer) {
        for (unsigned round = 0; round < rounds; round++) {
            const unsigned slot = round % RING, use = round / RING;
            if (use > 0) topkit_signal_wait(&ring->empty[slot], use - 1);
            ring->slots[slot][lane] = round * 100 + lane;
            topkit_signal_arrive(&ring->full[slot]);
        }
    } else if (warp < consumers) {
        unsigned sum = 0;
        for (unsigned round = 0; round < rounds; round++) {
            const unsigned slot = round % RING, use = round / RING;
            topkit_signal_wait(&ring->full[slot], use);
            sum = sum * 31 + ring->slots[slot][(lane + 5) % 32];
            __syncwarp();
            if (lane == 0) topkit_signal_arrive(&ring->empty[slot]);
        }
        sums[threadIdx.x] = sum;
    }
}

TEST_CASE("signal: a ring between one producer warp and three consumer warps") {
    under_all_schedules([] {
        const unsigned consumers = 3;
        for (unsigned rounds : {1u, 3u, 4u, 14u}) {
            device_buffer<unsigned> sums(consumers * 32);
            test_launch(1, 20 * 32, sizeof(signal_ring), signal_pipeline, 16u, consumers, rounds, sums.data);
            std::vector<unsigned> expected;
            for (unsigned t = 0; t < consumers * 32; t++) {
                unsigned sum = 0;
                for (unsigned round = 0; round < rounds; round++) sum = sum * 31 + round * 100 + (t % 32 + 5) % 32;
                expected.push_back(sum);
            }
            REQUIRE(sums.read() == expected);
        }
    });
}
