/* options.h: the command line of topkit-select, parsed. options.c holds the table of options and the text of --help. */
#ifndef TOPKIT_TOOL_OPTIONS_H
#define TOPKIT_TOOL_OPTIONS_H

#include <stddef.h>

enum { DEVICE_AUTO = 0, DEVICE_CUDA = 1, DEVICE_CPU = 2 };

typedef struct options {
    const char *scores;
    const char *lengths; /* paths that were not given are null */
    const char *out;
    const char *values;
    int k;
    int ties;            /* TOPKIT_TIES_..., TOPKIT_ORDER_..., TOPKIT_ROUTE_... of select.h */
    int order;
    int route;
    int device;
    int repeat;          /* 0: not given */
    int verify;
    int time;
    int help;            /* either of these ends the parse: nothing else is checked */
    int version;
} options;

/* Returns 0, or -1 with a one-line message. */
int options_parse(int argc, char **argv, options *out, char *message, size_t message_size);

/* The name of a route of select.h, as --route takes it. */
const char *options_route_name(int route);

extern const char options_help[];

#endif
