/* callee.c: see callee.h. */
#include "callee.h"

#include <stdio.h>
#include <string.h>

static int refused(int status)
{
    if (status == TOPKIT_OK)
        return 0;
    fprintf(stderr, "topkit-bench: topkit_select: %s\n", topkit_status_text(status));
    return 1;
}

static topkit_select_params params_of(const bench_call *call)
{
    const bench_case *c = call->shape;
    return (topkit_select_params){.scores = call->scores, .score_type = c->type, .row_stride = c->columns,
                                  .lengths = call->lengths, .rows = c->rows, .max_length = c->columns, .k = c->k, .ties = c->ties,
                                  .order = c->order, .route = c->route, .indices = call->indices, .stats = call->stats,
                                  .workspace = call->workspace, .workspace_bytes = call->workspace_bytes};
}

static int topkit_bytes(const bench_call *call, size_t *bytes)
{
    topkit_select_params params = params_of(call);
    return refused(topkit_select_workspace(&params, bytes));
}

static int topkit_enqueue(const bench_call *call, void *stream)
{
    topkit_select_params params = params_of(call);
    return refused(topkit_select(&params, stream));
}

const bench_callee *bench_find_callee(const char *name)
{
    static const bench_callee topkit = {"topkit", 1, topkit_bytes, topkit_enqueue};
    static const bench_callee cub = {"cub", 0, bench_cub_workspace, bench_cub_enqueue};
    static const bench_callee flashinfer = {"flashinfer", 1, bench_flashinfer_workspace, bench_flashinfer_enqueue};
    if (strcmp(name, topkit.name) == 0)
        return &topkit;
    if (strcmp(name, cub.name) == 0 && bench_cub_available())
        return &cub;
    if (strcmp(name, flashinfer.name) == 0 && bench_flashinfer_available())
        return &flashinfer;
    return NULL;
}
