/* npy.c: parser, header writer and reader behind npy.h.
 *
 * The grammar of a header, blanks (space, tab, newline) being free between tokens:
 *   header  = '{' entry (',' entry)* ','? '}'
 *   entry   = string ':' (string | 'True' | 'False' | tuple)
 *   tuple   = '(' ')' | '(' number ',' ')' | '(' number (',' number)+ ','? ')'
 *   string  = printable ASCII between two equal quotes, no backslash
 * Every read of a byte goes through peek() or literal(), which check the end, so that no input can lead the cursor outside.
 */
#define _POSIX_C_SOURCE 200809L
#include "npy.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "elements are used as they lie in the file: a little-endian machine is needed"
#endif

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* Bytes of one element and its dtype, indexed by npy_type. */
static const struct {
    const char *dtype;
    size_t bytes;
} types[] = {{"", 0}, {"<f4", 4}, {"<i4", 4}, {"<i8", 8}, {"<f2", 2}};

typedef struct cursor {
    const unsigned char *at;
    const unsigned char *end;
    const char *error; /* the first thing that went wrong; null while all is well */
} cursor;

static int refuse(cursor *c, const char *error) {
    if (c->error == NULL) {
        c->error = error;
    }
    return -1;
}

static int peek(const cursor *c) {
    return c->at < c->end ? *c->at : -1;
}

static void skip_blanks(cursor *c) {
    while (peek(c) == ' ' || peek(c) == '\t' || peek(c) == '\n') {
        c->at++;
    }
}

/* Takes `text` if it comes next; says whether it did. */
static int literal(cursor *c, const char *text) {
    size_t length = strlen(text);
    skip_blanks(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, text, length) != 0) {
        return 0;
    }
    c->at += length;
    return 1;
}

static int parse_string(cursor *c, char *text, size_t size) {
    skip_blanks(c);
    int quote = peek(c);
    if (quote != '\'' && quote != '"') {
        return refuse(c, "the header is not the dictionary that NumPy writes");
    }
    c->at++;
    size_t used = 0;
    for (int b = peek(c); b != quote; b = peek(c)) {
        if (b < 0x20 || b > 0x7e || b == '\\') {
            return refuse(c, "the header holds a text with bytes that do not belong there");
        }
        if (used + 1 >= size) {
            return refuse(c, "the header holds a text that is too long");
        }
        text[used++] = (char)b;
        c->at++;
    }
    c->at++;
    text[used] = '\0';
    return 0;
}

static int parse_number(cursor *c, long long *number) {
    skip_blanks(c);
    if (peek(c) < '0' || peek(c) > '9') {
        return refuse(c, "the shape is not a tuple of whole numbers");
    }
    long long value = 0;
    for (; peek(c) >= '0' && peek(c) <= '9'; c->at++) {
        int digit = peek(c) - '0';
        if (value > (LLONG_MAX - digit) / 10) {
            return refuse(c, "the shape holds a number that is too large");
        }
        value = value * 10 + digit;
    }
    *number = value;
    return 0;
}

static int parse_shape(cursor *c, npy_array *out) {
    if (!literal(c, "(")) {
        return refuse(c, "the shape is not a tuple of whole numbers");
    }
    while (!literal(c, ")")) {
        if (out->rank == NPY_MAX_RANK) {
            return refuse(c, "the array has too many dimensions");
        }
        if (parse_number(c, &out->shape[out->rank]) != 0) {
            return -1;
        }
        out->rank++;
        if (!literal(c, ",")) {
            /* One number needs its comma: "(5)" is no tuple in Python. */
            if (out->rank == 1 || !literal(c, ")")) {
                return refuse(c, "the shape is not a tuple of whole numbers");
            }
            break;
        }
    }
    return 0;
}

static int parse_dtype(cursor *c, npy_array *out) {
    skip_blanks(c);
    if (peek(c) == '[') {
        return refuse(c, "the dtype is structured; a plain one is needed");
    }
    if (parse_string(c, out->dtype, sizeof out->dtype) != 0) {
        return -1;
    }
    if (out->dtype[0] == '>') {
        return refuse(c, "the elements are big-endian; save them little-endian, with astype('<f4') for scores");
    }
    for (int t = NPY_FLOAT32; t <= NPY_FLOAT16; t++) {
        if (strcmp(out->dtype, types[t].dtype) == 0) {
            out->type = (npy_type)t;
        }
    }
    return 0;
}

static int parse_order(cursor *c) {
    if (literal(c, "True")) {
        return refuse(c, "the array is in Fortran order; save it in C order, with numpy.ascontiguousarray");
    }
    if (!literal(c, "False")) {
        return refuse(c, "fortran_order is neither True nor False");
    }
    return 0;
}

static int parse_dictionary(cursor *c, npy_array *out) {
    enum { DESCR = 1, FORTRAN_ORDER = 2, SHAPE = 4 };
    int seen = 0;
    if (!literal(c, "{")) {
        return refuse(c, "the header is not the dictionary that NumPy writes");
    }
    while (!literal(c, "}")) {
        char key[16];
        if (parse_string(c, key, sizeof key) != 0) {
            return -1;
        }
        int bit = strcmp(key, "descr") == 0           ? DESCR
                  : strcmp(key, "fortran_order") == 0 ? FORTRAN_ORDER
                  : strcmp(key, "shape") == 0         ? SHAPE
                                                      : 0;
        if (bit == 0 || (seen & bit) != 0 || !literal(c, ":")) {
            return refuse(c, "the header has other keys than descr, fortran_order and shape");
        }
        seen |= bit;
        int bad = bit == DESCR ? parse_dtype(c, out) : bit == SHAPE ? parse_shape(c, out) : parse_order(c);
        if (bad != 0) {
            return -1;
        }
        if (!literal(c, ",")) {
            if (!literal(c, "}")) {
                return refuse(c, "the header is not the dictionary that NumPy writes");
            }
            break;
        }
    }
    skip_blanks(c);
    if (c->at != c->end) {
        return refuse(c, "the header goes on behind its dictionary");
    }
    if (seen != (DESCR | FORTRAN_ORDER | SHAPE)) {
        return refuse(c, "the header lacks one of descr, fortran_order and shape");
    }
    return 0;
}

/* Multiplies the shape out. Zero dimensions are left out of the limit's product, so that (0, 2^60, 2^60) is refused as in NumPy. */
static int measure(cursor *c, npy_array *out) {
    const size_t limit = PTRDIFF_MAX / 8;
    size_t product = 1;
    int empty = 0;
    for (int d = 0; d < out->rank; d++) {
        unsigned long long side = (unsigned long long)out->shape[d];
        if (side == 0) {
            empty = 1;
        } else if (side > limit / product) {
            return refuse(c, "the shape is too large for this machine");
        } else {
            product *= (size_t)side;
        }
    }
    out->count = empty ? 0 : product;
    out->bytes = out->count * types[out->type].bytes;
    return 0;
}

static int parse(cursor *c, npy_array *out) {
    const unsigned char *begin = c->at;
    size_t size = (size_t)(c->end - c->at);
    if (size < sizeof magic || memcmp(begin, magic, sizeof magic) != 0) {
        return refuse(c, "not a .npy file");
    }
    if (size < 10 || (begin[6] != 1 && size < NPY_PREFIX)) {
        return refuse(c, "the file ends inside its header");
    }
    if (begin[6] < 1 || begin[6] > 3 || begin[7] != 0) {
        return refuse(c, "a .npy format version other than 1.0, 2.0 and 3.0");
    }
    size_t prefix = begin[6] == 1 ? 10 : 12;
    size_t length = begin[8] | (size_t)begin[9] << 8;
    if (prefix == 12) {
        length |= (size_t)begin[10] << 16 | (size_t)begin[11] << 24;
    }
    if (length > NPY_MAX_HEADER) {
        return refuse(c, "the header is longer than 65536 bytes");
    }
    if (length > size - prefix) {
        return refuse(c, "the file ends inside its header");
    }
    c->at = begin + prefix;
    c->end = c->at + length;
    out->data_offset = prefix + length;
    return parse_dictionary(c, out) != 0 ? -1 : measure(c, out);
}

int npy_parse_header(const unsigned char *data, size_t size, npy_array *out, const char **error) {
    cursor c = {data, data + size, NULL};
    memset(out, 0, sizeof *out);
    if (parse(&c, out) != 0) {
        memset(out, 0, sizeof *out);
        *error = c.error;
        return -1;
    }
    return 0;
}

void npy_format_header(npy_type type, int rank, const long long *shape, unsigned char header[NPY_HEADER_BYTES]) {
    char sides[64];
    if (rank == 1) {
        snprintf(sides, sizeof sides, "%lld,", shape[0]);
    } else {
        snprintf(sides, sizeof sides, "%lld, %lld", shape[0], shape[1]);
    }
    memcpy(header, magic, sizeof magic);
    header[6] = 1;
    header[7] = 0;
    header[8] = NPY_HEADER_BYTES - 10;
    header[9] = 0;
    char text[NPY_HEADER_BYTES - 9];
    int used = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", types[type].dtype, sides);
    memset(text + used, ' ', sizeof text - (size_t)used);
    text[NPY_HEADER_BYTES - 11] = '\n';
    memcpy(header + 10, text, NPY_HEADER_BYTES - 10);
}

/* Reads the elements of a parsed file. `held` bytes of `head` have been read from `file` already. Returns what is wrong, or null. */
static const char *read_elements(FILE *file, const unsigned char *head, size_t held, npy_array *out) {
    struct stat status;
    if (fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode)) {
        unsigned long long wanted = (unsigned long long)out->data_offset + out->bytes;
        if ((unsigned long long)status.st_size < wanted) {
            return "the file is truncated: it holds fewer elements than its header says";
        }
        if ((unsigned long long)status.st_size > wanted) {
            return "the file goes on behind its last element";
        }
    }
    out->data = malloc(out->bytes > 0 ? out->bytes : 1);
    if (out->data == NULL) {
        return "not enough memory to read it";
    }
    size_t begun = held - out->data_offset < out->bytes ? held - out->data_offset : out->bytes;
    memcpy(out->data, head + out->data_offset, begun);
    if (fread((char *)out->data + begun, 1, out->bytes - begun, file) != out->bytes - begun) {
        return ferror(file) ? strerror(errno) : "the file is truncated: it holds fewer elements than its header says";
    }
    if (held > out->data_offset + out->bytes || fgetc(file) != EOF) {
        return "the file goes on behind its last element";
    }
    return ferror(file) ? strerror(errno) : NULL;
}

int npy_read(const char *path, npy_array *out, char *message, size_t message_size) {
    memset(out, 0, sizeof *out);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        snprintf(message, message_size, "%s: %s", path, strerror(errno));
        return -1;
    }
    unsigned char *head = malloc(NPY_PREFIX + NPY_MAX_HEADER);
    const char *error = "not enough memory to read it";
    char foreign[96];
    if (head != NULL) {
        size_t held = fread(head, 1, NPY_PREFIX + NPY_MAX_HEADER, file);
        error = ferror(file) ? strerror(errno) : NULL;
        if (error == NULL && npy_parse_header(head, held, out, &error) == 0) {
            if (out->type == NPY_OTHER) {
                snprintf(foreign, sizeof foreign, "the dtype is '%s'; only '<f2', '<f4', '<i4' and '<i8' are read here", out->dtype);
                error = foreign;
            } else {
                error = read_elements(file, head, held, out);
            }
        }
    }
    if (error != NULL) {
        snprintf(message, message_size, "%s: %s", path, error);
        npy_free(out);
    }
    free(head);
    fclose(file);
    return error != NULL ? -1 : 0;
}

void npy_free(npy_array *array) {
    free(array->data);
    memset(array, 0, sizeof *array);
}
