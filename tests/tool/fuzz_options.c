/* fuzz_options.c: libFuzzer target for the command line of topkit-select.
 *
 *   clang -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined -Iexamples -Iexamples/tool tests/tool/fuzz_options.c \
 *       examples/tool/options.c -o fuzz_options
 *   ./fuzz_options -max_total_time=60 -only_ascii=1
 *
 * An input is a list of arguments, each ended by a zero byte or a line's end. Whatever is accepted is in range, and a refusal has one
 * message that fits its buffer, however long the arguments are.
 */
#include "options.h"

#include "select.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 32, MESSAGE = 64 };

static void demand(int condition) {
    if (!condition) {
        abort();
    }
}

static void check_accepted(const options *o) {
    demand(o->ties == TOPKIT_TIES_ANY || o->ties == TOPKIT_TIES_LOWEST_INDEX);
    demand(o->order >= TOPKIT_ORDER_NONE && o->order <= TOPKIT_ORDER_SCORE);
    demand(o->route >= TOPKIT_ROUTE_AUTO && o->route <= TOPKIT_ROUTE_DIRECT && options_route_name(o->route) != NULL);
    demand(o->device >= DEVICE_AUTO && o->device <= DEVICE_CPU);
    demand(o->repeat >= 0);
    demand(o->help || o->version || (o->scores != NULL && o->k >= 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    char *arguments[MOST_ARGUMENTS + 2] = {"topkit-select"};
    int count = 1;
    demand(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    for (size_t i = 0; i < size; i++) {
        text[i] = text[i] == '\n' ? '\0' : text[i];
        if ((i == 0 || text[i - 1] == '\0') && count <= MOST_ARGUMENTS) {
            arguments[count++] = text + i;
        }
    }
    options parsed;
    char message[MESSAGE + 1];
    memset(message, '?', sizeof message);
    int code = options_parse(count, arguments, &parsed, message, MESSAGE);
    demand(code == 0 || code == -1);
    demand(message[MESSAGE] == '?');
    if (code == 0) {
        check_accepted(&parsed);
        demand(message[0] == '?');
    } else {
        demand(memchr(message, '\0', MESSAGE) != NULL && message[0] != '\0');
    }
    free(text);
    return 0;
}
