/* fuzz_npy.c: libFuzzer target for the .npy parser.
 *
 *   clang -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined -Iexamples/tool tests/tool/fuzz_npy.c examples/tool/npy.c -o fuzz_npy
 *   ./fuzz_npy -max_total_time=120 -dict=tests/tool/npy.dict
 *
 * No input may make the parser read outside (the sanitizers see that), and whatever it accepts must be consistent with itself and come
 * back the same from a header that the writer makes of it.
 */
#include "npy.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void demand(int condition) {
    if (!condition) {
        abort();
    }
}

static void check_accepted(const npy_array *a, size_t size) {
    static const size_t bytes[] = {0, 4, 4, 8, 2};
    demand(a->type >= NPY_OTHER && a->type <= NPY_FLOAT16);
    demand(a->rank >= 0 && a->rank <= NPY_MAX_RANK);
    demand(a->data_offset >= 10 && a->data_offset <= size);
    demand(memchr(a->dtype, '\0', sizeof a->dtype) != NULL);
    size_t product = 1;
    for (int d = 0; d < a->rank; d++) {
        demand(a->shape[d] >= 0);
        product *= (size_t)a->shape[d];
    }
    demand(a->count == product && a->bytes == product * bytes[a->type]);
    demand(a->data == NULL);
    if (a->type != NPY_OTHER && (a->rank == 1 || a->rank == 2)) {
        unsigned char header[NPY_HEADER_BYTES];
        npy_array again;
        const char *error = NULL;
        npy_format_header(a->type, a->rank, a->shape, header);
        demand(npy_parse_header(header, sizeof header, &again, &error) == 0);
        demand(again.type == a->type && again.rank == a->rank && again.bytes == a->bytes);
        demand(memcmp(again.shape, a->shape, sizeof a->shape) == 0);
    }
}

static void try_file(const uint8_t *data, size_t size) {
    npy_array array;
    const char *error = NULL;
    int code = npy_parse_header(data, size, &array, &error);
    demand((code == 0 && error == NULL) || (code == -1 && error != NULL && strchr(error, '\n') == NULL));
    if (code == 0) {
        check_accepted(&array, size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_file(data, size);
    /* and the same bytes as a dictionary whose prefix has the right length, or hardly an input would get past it */
    uint8_t *file = malloc(size + NPY_PREFIX);
    demand(file != NULL);
    memcpy(file, "\x93NUMPY\x02\x00", 8);
    for (int i = 0; i < 4; i++) {
        file[8 + i] = (uint8_t)(size >> 8 * i);
    }
    memcpy(file + NPY_PREFIX, data, size);
    try_file(file, size + NPY_PREFIX);
    free(file);
    return 0;
}
