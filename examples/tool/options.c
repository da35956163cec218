/* options.c: `--name value`, `--name=value` and flags, from one table. See options.h.
 *
 * A value may begin with one dash (-1 is a number, and refused as one) but not with two, so that a forgotten value is told from the option
 * behind it. Behind `--` everything is a path.
 */
#include "options.h"

#include "select.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char options_help[] =
    "usage: topkit-select SCORES.npy --k K [options]\n"
    "\n"
    "Selects the K largest scores of each row of a float32 or float16 matrix, exactly, and prints a summary.\n"
    "\n"
    "  --k K              results a row; rows with fewer scores are padded with -1\n"
    "  --lengths L.npy    int32 or int64 scores in each row (default: all columns)\n"
    "  --out I.npy        write the indices, int32, rows x K\n"
    "  --values V.npy     write the selected scores, in the input's type, rows x K, -inf behind the results\n"
    "  --ties T           equal scores at the boundary: any (default) or lowest index\n"
    "  --order O          of each row's results: none (default), index or score\n"
    "  --route R          auto (default), row, pipelined, split, direct or any-k\n"
    "  --device D         auto (default: a GPU if there is one), cuda, or cpu: the same kernels, run by the executor\n"
    "  --verify           check the result against a full sort of every row\n"
    "  --time             print the median time of the runs\n"
    "  --repeat N         runs behind the first, which is not timed (default: with --time 10 on a GPU and 1 on the CPU, otherwise 0)\n"
    "  --help, --version\n"
    "\n"
    "Exit codes: 0 done (and exact, with --verify); 1 not exact; 2 refused or failed, with one line that says why.\n"
    "Outputs are written last, whole or not at all, and only if --verify found nothing wrong.\n";

/* Word lists: a word's position is its value in select.h, or in options.h for the device. */
static const char *const ties_words[] = {"any", "lowest", NULL};
static const char *const order_words[] = {"none", "index", "score", NULL};
static const char *const route_words[] = {"auto", "row", "pipelined", "split", "direct", "any-k", NULL};
static const char *const device_words[] = {"auto", "cuda", "cpu", NULL};

_Static_assert(TOPKIT_TIES_ANY == 0 && TOPKIT_TIES_LOWEST_INDEX == 1, "ties_words");
_Static_assert(TOPKIT_ORDER_NONE == 0 && TOPKIT_ORDER_INDEX == 1 && TOPKIT_ORDER_SCORE == 2, "order_words");
_Static_assert(TOPKIT_ROUTE_AUTO == 0 && TOPKIT_ROUTE_ROW == 1 && TOPKIT_ROUTE_PIPELINED == 2, "route_words");
_Static_assert(TOPKIT_ROUTE_SPLIT == 3 && TOPKIT_ROUTE_DIRECT == 4 && TOPKIT_ROUTE_ANY_K == 5, "route_words");
_Static_assert(DEVICE_AUTO == 0 && DEVICE_CUDA == 1 && DEVICE_CPU == 2, "device_words");

typedef struct option {
    const char *name;
    const char **path;        /* exactly one of path, number, choice and flag is set */
    int *number;
    int least;                /* of a number */
    int *choice;
    const char *const *words; /* of a choice */
    int *flag;
} option;

const char *options_route_name(int route) {
    return route_words[route];
}

static int parse_number(const option *o, const char *text, char *message, size_t message_size) {
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    /* strtol itself would take blanks and a plus sign */
    int plain = (text[0] >= '0' && text[0] <= '9') || text[0] == '-';
    if (!plain || *end != '\0' || errno != 0 || value < o->least || value > INT_MAX) {
        snprintf(message, message_size, "%s takes a whole number from %d to %d, not '%s'", o->name, o->least, INT_MAX, text);
        return -1;
    }
    *o->number = (int)value;
    return 0;
}

static int parse_choice(const option *o, const char *text, char *message, size_t message_size) {
    char list[64] = "";
    for (int i = 0; o->words[i] != NULL; i++) {
        if (strcmp(text, o->words[i]) == 0) {
            *o->choice = i;
            return 0;
        }
        const char *separator = i == 0 ? "" : o->words[i + 1] != NULL ? ", " : " or ";
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", separator, o->words[i]);
    }
    snprintf(message, message_size, "%s is %s, not '%s'", o->name, list, text);
    return -1;
}

static int parse_value(const option *o, const char *text, char *message, size_t message_size) {
    if (o->number != NULL) {
        return parse_number(o, text, message, message_size);
    }
    if (o->choice != NULL) {
        return parse_choice(o, text, message, message_size);
    }
    *o->path = text;
    return 0;
}

int options_parse(int argc, char **argv, options *out, char *message, size_t message_size) {
    memset(out, 0, sizeof *out);
    out->k = -1;
    const option table[] = {
        {"--k", .number = &out->k, .least = 0},
        {"--lengths", .path = &out->lengths},
        {"--out", .path = &out->out},
        {"--values", .path = &out->values},
        {"--ties", .choice = &out->ties, .words = ties_words},
        {"--order", .choice = &out->order, .words = order_words},
        {"--route", .choice = &out->route, .words = route_words},
        {"--device", .choice = &out->device, .words = device_words},
        {"--repeat", .number = &out->repeat, .least = 1},
        {"--verify", .flag = &out->verify},
        {"--time", .flag = &out->time},
        {"--help", .flag = &out->help},
        {"--version", .flag = &out->version},
    };
    int only_paths = 0;
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (!only_paths && strcmp(argument, "--") == 0) {
            only_paths = 1;
            continue;
        }
        if (only_paths || argument[0] != '-') {
            if (out->scores != NULL) {
                snprintf(message, message_size, "one scores file is read, not both '%s' and '%s'", out->scores, argument);
                return -1;
            }
            out->scores = argument;
            continue;
        }
        const char *equals = strchr(argument, '=');
        size_t length = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
        const option *o = NULL;
        for (size_t t = 0; t < sizeof table / sizeof *table && o == NULL; t++) {
            if (strlen(table[t].name) == length && memcmp(table[t].name, argument, length) == 0) {
                o = &table[t];
            }
        }
        if (o == NULL) {
            snprintf(message, message_size, "unknown option '%s'; --help lists all", argument);
            return -1;
        }
        if (o->flag != NULL) {
            if (equals != NULL) {
                snprintf(message, message_size, "%s takes no value", o->name);
                return -1;
            }
            *o->flag = 1;
            if (out->help || out->version) {
                return 0;
            }
            continue;
        }
        const char *value = equals != NULL ? equals + 1 : i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0 ? argv[++i] : NULL;
        if (value == NULL || value[0] == '\0') {
            snprintf(message, message_size, "%s needs a value", o->name);
            return -1;
        }
        if (parse_value(o, value, message, message_size) != 0) {
            return -1;
        }
    }
    if (out->scores == NULL || out->k < 0) {
        snprintf(message, message_size, "%s; --help shows the usage", out->scores == NULL ? "no scores file given" : "--k is missing");
        return -1;
    }
    return 0;
}
