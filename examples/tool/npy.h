/* npy.h: NumPy's .npy files, as far as topkit-select needs them.
 *
 *   npy_array a;
 *   char message[NPY_MESSAGE];
 *   if (npy_read("scores.npy", &a, message, sizeof message) != 0) { puts(message); return 2; }
 *   ... a.type, a.rank, a.shape[], a.count, a.data ...
 *   npy_free(&a);
 *
 * Reads format versions 1.0, 2.0 and 3.0 with little-endian float16, float32, int32 or int64 elements in C order. The header is a Python
 * dictionary; here it is parsed as a small fixed grammar, not evaluated: exactly the keys descr, fortran_order and shape, once each
 * and in any order. Everything else is refused with one sentence: other versions, big-endian and structured types, Fortran
 * order, shapes whose byte size does not fit, a file that is shorter or longer than its header says.
 *
 * The parser is a pure function over memory and takes hostile input; tests/tool/fuzz_npy.c feeds it. The reader allocates what
 * the header claims only after the file's size has confirmed it (where the file has a size: a pipe is read as far as it goes).
 */
#ifndef TOPKIT_TOOL_NPY_H
#define TOPKIT_TOOL_NPY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    NPY_MAX_RANK = 8,
    NPY_MAX_DTYPE = 16,      /* bytes of a dtype's text, the final zero included */
    NPY_MAX_HEADER = 65536,  /* bytes of a header's dictionary; NumPy itself stops at 10000 */
    NPY_PREFIX = 12,         /* bytes before the dictionary at most: magic, version, length */
    NPY_HEADER_BYTES = 128,  /* what npy_format_header writes, always */
    NPY_MESSAGE = 8192       /* room for a path and a sentence */
};

typedef enum npy_type { NPY_OTHER = 0, NPY_FLOAT32 = 1, NPY_INT32 = 2, NPY_INT64 = 3, NPY_FLOAT16 = 4 } npy_type;

typedef struct npy_array {
    npy_type type;                /* NPY_OTHER: well-formed, but not a type that is read here */
    char dtype[NPY_MAX_DTYPE];    /* as in the file, printable, for messages */
    int rank;
    long long shape[NPY_MAX_RANK];
    size_t count;                 /* elements: the product of the shape */
    size_t bytes;                 /* of the elements; 0 for NPY_OTHER */
    size_t data_offset;           /* where the elements begin in the file */
    void *data;                   /* null after npy_parse_header; owned after npy_read */
} npy_array;

/* Parses the first `size` bytes of a file, which must hold the whole header. Returns 0, or -1 with *error set to a sentence (static
 * text); *out is then zeroed. */
int npy_parse_header(const unsigned char *data, size_t size, npy_array *out, const char **error);

/* Writes a version 1.0 header of NPY_HEADER_BYTES bytes for an array of rank 1 or 2 and a type that is not NPY_OTHER. */
void npy_format_header(npy_type type, int rank, const long long *shape, unsigned char header[NPY_HEADER_BYTES]);

/* Reads a whole file. Returns 0, or -1 with a one-line message "PATH: what is wrong"; *out then owns nothing. */
int npy_read(const char *path, npy_array *out, char *message, size_t message_size);

void npy_free(npy_array *array);

#ifdef __cplusplus
}
#endif
#endif
