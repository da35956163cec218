/* gpu.h: all that the C part of the driver needs of CUDA: memory, machine facts, and calls replayed from graphs and timed.
 *
 *   replay r;
 *   if (replay_capture(&r, enqueue, context, copies) || replay_warm_up(&r, 10))   one graph a copy; replays cycle over the copies
 *       fail();
 *   double us = replay_sample(&r);                                                one sample, microseconds a call
 *   replay_free(&r);
 *
 * A sample is an event, `per_sample` graph launches and an event. A kernel that only waits goes ahead of it, so that the host has
 * queued all of it before the first event's time is taken: the host's own launch time is never measured.
 * Every int function returns 0, or has printed one line to stderr. One stream for everything, and one device.
 */
#ifndef TOPKIT_BENCH_GPU_H
#define TOPKIT_BENCH_GPU_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REPLAY_COPIES = 16 };

typedef struct bench_machine {
    char name[256];
    char compiler[64];
    int arch; /* compute capability, major * 10 + minor */
    int sm_count;
    int l2_bytes;
    int shared_per_block;
    int shared_per_sm;
    int threads_per_sm;
    int driver_version;  /* highest CUDA version the driver serves, 13000 for 13.0 */
    int runtime_version;
    size_t memory_bytes;
    size_t free_bytes;
} bench_machine;

typedef int (*replay_enqueue)(void *context, int copy, void *stream);

typedef struct replay {
    void *graphs[REPLAY_COPIES];
    int copies;
    int next;       /* the copy that the next launch takes */
    int lead;       /* launches before a sample that are not timed: 1 or more where the caches have to be warm */
    int per_sample; /* launches in a sample, chosen by replay_warm_up so that a sample lasts about 200 us */
} replay;

/* A plain read of some buffers, the ceiling of everything else; or one that also writes, evenly as it goes, as many bytes as an answer
 * has: memory that turns round between the two takes longer for both. */
typedef struct bench_read {
    const void *buffers[REPLAY_COPIES];
    size_t bytes; /* of each, a multiple of 16 */
    int blocks;
    void *out; /* null: nothing is written */
    size_t out_bytes;
} bench_read;

int bench_gpu_open(bench_machine *machine);
void bench_gpu_close(void);
int bench_gpu_failed(int error, const char *what); /* of a cudaError_t: 0 for success, else one line on stderr and 1 */
void *bench_gpu_alloc(size_t bytes); /* null when there is no memory; says nothing */
void bench_gpu_free(void *memory);
int bench_gpu_upload(void *device, const void *host, size_t bytes);
int bench_gpu_download(void *host, const void *device, size_t bytes);
int bench_gpu_set(void *device, int byte, size_t bytes);
int bench_gpu_sync(const char *what);
void *bench_gpu_stream(void);

int bench_replay_open(int sm_count);
void bench_replay_close(void);
int replay_capture(replay *r, replay_enqueue enqueue, void *context, int copies);
int replay_launch(replay *r, int copy); /* one launch of that copy, waited for */
int replay_warm_up(replay *r, int launches);
int replay_queue(replay *r, int launches); /* launches that nobody waits for */
double replay_sample(replay *r); /* below 0 on an error */
void replay_free(replay *r);

int bench_read_enqueue(void *read, int copy, void *stream); /* a replay_enqueue; context is a bench_read */
int bench_read_tune(bench_read *read, int copies);           /* sets `blocks` to the fastest of several grids */
int bench_empty_enqueue(void *unused, int copy, void *stream);

double bench_seconds(void); /* a monotonic clock of the host */

#ifdef __cplusplus
}
#endif
#endif
