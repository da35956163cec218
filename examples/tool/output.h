/* output.h: files that appear whole or not at all.
 *
 *   output_file files[2] = {{0}};
 *   output_check(&files[0], "indices.npy", message, sizeof message);            early: could this path be written?
 *   output_stage(&files[0], header, header_bytes, data, bytes, message, ...);   writes and fsyncs a temporary file beside it
 *   output_commit(files, 2, message, ...);                                      renames every staged file to its final name
 *   output_discard(files, 2);                                                   removes what was staged and not committed
 *
 * Until output_commit nothing under the final names has changed, so a failure or SIGINT, SIGTERM or SIGHUP at any earlier moment leaves
 * the folder as it was: the signals' handler removes the temporary files before it lets the signal end the program. During
 * the renames these signals wait. An existing file keeps its permissions; a symbolic link keeps pointing to the file that is replaced.
 * Only SIGKILL, a crash or a power cut in mid-write can leave a temporary file, never a partial final one.
 *
 * Functions that take a message return 0, or -1 with one line in it.
 */
#ifndef TOPKIT_TOOL_OUTPUT_H
#define TOPKIT_TOOL_OUTPUT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { OUTPUT_MAX = 2 }; /* files that may be staged at one time */

typedef struct output_file {
    char *path;  /* final name, symbolic links resolved; null: this output is not wanted, and every function passes over it */
    int slot;    /* 1 + its entry in the table of temporary names; 0: nothing is staged */
} output_file;

/* Takes `path` and checks that it is, or could become, a regular file that we may write in a folder that we may write. */
int output_check(output_file *file, const char *path, char *message, size_t message_size);

/* Does the output replace the file at `other`? By device and inode, so that links are seen through. */
int output_replaces(const output_file *file, const char *other);

/* Would both outputs be the same file? */
int output_same(const output_file *a, const output_file *b);

int output_stage(output_file *file, const void *header, size_t header_bytes, const void *data, size_t bytes, char *message,
                 size_t message_size);
int output_commit(output_file *files, int count, char *message, size_t message_size);

/* Also frees the names: the last call for these files, whatever came before. */
void output_discard(output_file *files, int count);

#ifdef __cplusplus
}
#endif
#endif
