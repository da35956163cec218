/* nvrtc_matrix.c (D02): NVRTC compiles the library with no include path, for each architecture that it has. Needs no GPU.
 *
 *   nvrtc_matrix SINGLE FOLDER UNIT ARCH...
 *
 * FOLDER holds the headers, which are handed to NVRTC by the names that they include each other by, "topkit/key.cuh". Compiled are, for
 * each ARCH (90a, 100a, ...): each header alone, the kernel UNIT with the headers, and UNIT with the single header's text in their place.
 * An architecture that this NVRTC does not know is named and left out; if none is left the test fails.
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADERS = 64, MAX_NAME = 128 };

static char names[MAX_HEADERS][MAX_NAME];        /* "topkit/key.cuh" */
static const char *name_of[MAX_HEADERS];         /* the same, as NVRTC wants them */
static const char *text_of[MAX_HEADERS];
static int header_count;
static int failures;

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    char *text = NULL;
    size_t size = 0;
    size_t got = 0;
    do {
        text = realloc(text, size + 65536 + 1);
        if (text == NULL) exit(2);
        got = fread(text + size, 1, 65536, file);
        size += got;
    } while (got > 0);
    fclose(file);
    text[size] = 0;
    return text;
}

static void read_headers(const char *folder) {
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        perror(folder);
        exit(2);
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[4096];
        if (entry->d_name[0] == '.' || header_count == MAX_HEADERS) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        snprintf(names[header_count], MAX_NAME, "topkit/%.100s", entry->d_name);
        name_of[header_count] = names[header_count];
        text_of[header_count++] = read_file(path);
    }
    closedir(dir);
}

/* Compiles `text` for `arch`, down to machine code ("sm") or PTX ("compute"); headers are known by name when `with_headers`. */
static void compile(const char *what, const char *text, int with_headers, const char *code, const char *arch) {
    char option[32];
    snprintf(option, sizeof option, "-arch=%s_%s", code, arch);
    const char *options[] = {option, "-std=c++17", "--Ofast-compile=max"}; /* the last one came with 12.9 */
    int major = 0;
    int minor = 0;
    nvrtcVersion(&major, &minor);
    nvrtcProgram program;
    nvrtcResult result = nvrtcCreateProgram(&program, text, "unit.cu", with_headers ? header_count : 0, text_of, name_of);
    if (result == NVRTC_SUCCESS) result = nvrtcCompileProgram(program, major * 10 + minor >= 129 ? 3 : 2, options);
    size_t size = 0;
    nvrtcGetProgramLogSize(program, &size);
    char *log = calloc(1, size + 1);
    nvrtcGetProgramLog(program, log);
    if (result != NVRTC_SUCCESS || size > 1) {
        printf("FAIL: %s for sm_%s: %s\n%.2000s\n", what, arch, nvrtcGetErrorString(result), log);
        failures++;
    }
    free(log);
    nvrtcDestroyProgram(&program);
}

static int is_known(const char *arch) {
    int count = 0;
    int known[128];
    nvrtcGetNumSupportedArchs(&count);
    if (count > 128 || nvrtcGetSupportedArchs(known) != NVRTC_SUCCESS) return 0;
    for (int i = 0; i < count; i++) {
        if (known[i] == atoi(arch)) return 1;
    }
    return 0;
}

/* The single header, then the unit without its includes. */
static char *paste(const char *single, const char *unit) {
    char *text = calloc(1, strlen(single) + strlen(unit) + 2);
    strcat(strcpy(text, single), "\n");
    for (const char *line = unit; *line != 0;) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, "#include", 8) != 0) strncat(text, line, length);
        strcat(text, "\n");
        line += length + (line[length] == '\n');
    }
    return text;
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    char *single = read_file(argv[1]);
    read_headers(argv[2]);
    char *unit = read_file(argv[3]);
    char *pasted = paste(single, unit);
    int done = 0;
    for (int a = 4; a < argc; a++) {
        if (!is_known(argv[a])) {
            printf("left out: this NVRTC does not know sm_%s\n", argv[a]);
            continue;
        }
        for (int i = 0; i < header_count; i++) {
            char line[MAX_NAME + 16];
            snprintf(line, sizeof line, "#include \"%s\"\n", names[i]);
            compile(names[i], line, 1, "sm", argv[a]);
        }
        compile("every call, by named headers", unit, 1, "sm", argv[a]);
        compile("every call, single header", pasted, 0, "compute", argv[a]); /* the same code, assembled once */
        done++;
    }
    printf("%d headers, %d architectures, %d failures\n", header_count, done, failures);
    return failures == 0 && done > 0 && header_count > 0 ? 0 : 1;
}
