/* report.h: results as JSON, for bench/merge.py and whoever reads it, and as a short table. Plus what is said of the machine.
 *
 *   bench_measure_run(&run, 4096)                   read rate, empty launch, clocks under load; once a process
 *   bench_add_traces(results, &count)            replaces the calls of each trace by one entry, their sum
 *   bench_write_json(path, &run, results, count)   `kernel` is callee, route, ties and order in one word
 *   bench_print_table(stdout, results, count)
 */
#ifndef TOPKIT_BENCH_REPORT_H
#define TOPKIT_BENCH_REPORT_H

#include "run.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_run {
    bench_machine machine;
    char driver[64];     /* as nvidia-smi names it; empty when it is not there */
    int sm_mhz;          /* while the device reads memory; 0: unknown */
    int memory_mhz;
    double read_gb_s;    /* of a plain read, of 4 GB as a rule */
    double empty_us;     /* replay of a graph with an empty kernel */
    const char *commit;
    int warm_up;
} bench_run;

int bench_measure_run(bench_run *run, int read_mib);
void bench_add_traces(bench_result *results, int *count);
void bench_write_machine(FILE *file, const bench_run *run); /* an object's first members, each with a comma behind it */
int bench_write_json(const char *path, const bench_run *run, const bench_result *results, int count);
void bench_print_table(FILE *file, const bench_result *results, int count);

#ifdef __cplusplus
}
#endif
#endif
