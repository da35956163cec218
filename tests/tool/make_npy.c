/* make_npy: writes the input files that cli.sh needs, good ones and bad ones.
 *
 *   make_npy scores FILE ROWS COLUMNS            float32 matrix: many equal scores, both zeros, infinities, NaNs, denormals
 *   make_npy floats FILE ROWS COLUMNS X...       float32 matrix of the given numbers ("nan" and "-inf" are numbers)
 *   make_npy halves FILE ROWS COLUMNS [X...]     float16 matrix: the given bit patterns in hexadecimal, or without any all of them in a row
 *   make_npy lengths FILE i4|i8 N...             int32 or int64 vector
 *   make_npy raw FILE MAJOR BYTES HEADER         any dictionary behind a proper prefix of the given version, then BYTES zero bytes
 *
 * Shares no code with the tool, so that the two agree on the format and not on a mistake.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_header(FILE *file, int major, const char *text) {
    size_t length = strlen(text) + 1;
    unsigned char prefix[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)major, 0};
    for (int i = 0; i < 4; i++) {
        prefix[8 + i] = (unsigned char)(length >> 8 * i);
    }
    fwrite(prefix, 1, major == 1 ? 10 : 12, file);
    fprintf(file, "%s\n", text);
}

/* A fixed sequence of floats that holds everything that makes a selection hard. */
static float hard_score(uint32_t i) {
    uint32_t h = (i + 1) * 2654435761u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    switch (h % 16) {
    case 0: return 0.0f;
    case 1: return -0.0f;
    case 2: return h & 256 ? INFINITY : -INFINITY;
    case 3: return h & 256 ? NAN : -NAN;
    case 4: return (float)(h >> 24) * 1e-44f;
    case 5:
    case 6:
    case 7: return (float)(h >> 28);
    default: return (float)(h >> 8) * 0x1p-20f - 8.0f;
    }
}

int main(int argc, char **argv) {
    const char *kind = argc > 2 ? argv[1] : "";
    FILE *file = argc > 2 ? fopen(argv[2], "wb") : NULL;
    char header[128];
    if (file == NULL) {
        fprintf(stderr, "make_npy: bad arguments, or the file can not be written\n");
        return 2;
    }
    if (strcmp(kind, "raw") == 0 && argc == 6) {
        put_header(file, atoi(argv[3]), argv[5]);
        for (long i = 0; i < atol(argv[4]); i++) {
            fputc(0, file);
        }
    } else if (strcmp(kind, "lengths") == 0 && argc >= 4) {
        int wide = strcmp(argv[3], "i8") == 0;
        snprintf(header, sizeof header, "{'descr': '<%s', 'fortran_order': False, 'shape': (%d,), }", argv[3], argc - 4);
        put_header(file, 1, header);
        for (int i = 4; i < argc; i++) {
            int64_t number = atoll(argv[i]);
            fwrite(&number, 1, wide ? 8 : 4, file);
        }
    } else if ((strcmp(kind, "scores") == 0 && argc == 5) || (strcmp(kind, "floats") == 0 && argc >= 5)) {
        uint32_t rows = (uint32_t)atol(argv[3]);
        uint32_t columns = (uint32_t)atol(argv[4]);
        snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%u, %u), }", rows, columns);
        put_header(file, 1, header);
        for (uint32_t i = 0; i < rows * columns; i++) {
            float score = kind[0] == 's' ? hard_score(i) : i + 5 < (uint32_t)argc ? strtof(argv[i + 5], NULL) : 0.0f;
            fwrite(&score, sizeof score, 1, file);
        }
    } else if (strcmp(kind, "halves") == 0 && argc >= 5) {
        uint32_t rows = (uint32_t)atol(argv[3]);
        uint32_t columns = (uint32_t)atol(argv[4]);
        snprintf(header, sizeof header, "{'descr': '<f2', 'fortran_order': False, 'shape': (%u, %u), }", rows, columns);
        put_header(file, 1, header);
        for (uint32_t i = 0; i < rows * columns; i++) {
            uint16_t score = (uint16_t)(argc == 5 ? i * 40503u : i + 5 < (uint32_t)argc ? strtoul(argv[i + 5], NULL, 16) : 0);
            fwrite(&score, sizeof score, 1, file);
        }
    } else {
        fprintf(stderr, "make_npy: unknown kind %s, or the wrong number of arguments\n", kind);
        fclose(file);
        return 2;
    }
    return fclose(file) != 0;
}
