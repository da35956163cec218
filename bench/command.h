/* command.h: what the benchmarks' command lines have in common: each returns whether the text will do. */
#ifndef TOPKIT_BENCH_COMMAND_H
#define TOPKIT_BENCH_COMMAND_H

#include <stdlib.h>
#include <string.h>

/* A whole number from 1 to 2^30, and nothing behind it. */
static inline int bench_positive(const char *text, int *value)
{
    char *end;
    long n = strtol(text, &end, 10);
    *value = (int)n;
    return *text != '\0' && *end == '\0' && n > 0 && n <= 1 << 30;
}

/* A name that goes into JSON as it is. */
static inline int bench_plain(const char *text)
{
    for (; *text; ++text)
        if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ')
            return 0;
    return 1;
}

#endif
