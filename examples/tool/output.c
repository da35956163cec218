/* output.c: temporary files, their removal on signals, and the rename that makes them final. See output.h.
 *
 * The handler may run between any two instructions, so it touches only the table below: names in static storage and a flag each that
 * is raised before the file exists and lowered after it is gone. Both happen with the signals blocked, which makes "the flag is
 * up" and "the file is ours" the same statement, and a handler can not remove a file of somebody else.
 */
#define _XOPEN_SOURCE 700
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char temporary_names[OUTPUT_MAX][PATH_MAX];
static volatile sig_atomic_t temporary_live[OUTPUT_MAX];

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
enum { ENDING_SIGNALS = sizeof ending_signals / sizeof *ending_signals };

static void remove_and_die(int number) {
    for (int i = 0; i < OUTPUT_MAX; i++) {
        if (temporary_live[i]) {
            unlink(temporary_names[i]);
        }
    }
    raise(number); /* SA_RESETHAND has restored the default, which ends the program */
}

static void install_handlers(void) {
    struct sigaction action = {0};
    action.sa_handler = remove_and_die;
    action.sa_flags = (int)(SA_RESETHAND | SA_NODEFER);
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < ENDING_SIGNALS; i++) {
        struct sigaction before;
        /* a signal that the parent has us ignore (nohup) stays ignored */
        if (sigaction(ending_signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
            sigaction(ending_signals[i], &action, NULL);
        }
    }
    /* a file size limit shall fail the write, not kill the program before it has cleaned up */
    signal(SIGXFSZ, SIG_IGN);
}

static void block_signals(sigset_t *before) {
    sigset_t ending;
    sigemptyset(&ending);
    for (int i = 0; i < ENDING_SIGNALS; i++) {
        sigaddset(&ending, ending_signals[i]);
    }
    sigprocmask(SIG_BLOCK, &ending, before);
}

/* Writes "PATH: what" into the message; `what` null means the text of errno. Always returns -1. */
static int complain(const char *path, const char *what, char *message, size_t message_size) {
    snprintf(message, message_size, "%s: %s", path, what != NULL ? what : strerror(errno));
    return -1;
}

/* Returns the folder part of `path`, "." if there is none, in a new string; null without memory. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    char *folder = malloc(length + 2);
    if (folder != NULL) {
        memcpy(folder, path, length);
        strcpy(folder + length, length == 0 ? "." : "");
    }
    return folder;
}

/* The final name of an output that does not exist yet: its folder's real name and its own. */
static char *name_in_real_folder(const char *path) {
    char *folder = folder_of(path);
    char *real = folder != NULL ? realpath(folder, NULL) : NULL;
    free(folder);
    if (real == NULL) {
        return NULL;
    }
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    size_t size = strlen(real) + strlen(base) + 2;
    char *name = malloc(size);
    if (name != NULL) {
        snprintf(name, size, "%s/%s", strcmp(real, "/") == 0 ? "" : real, base);
    }
    free(real);
    return name;
}

int output_check(output_file *file, const char *path, char *message, size_t message_size) {
    struct stat status;
    if (stat(path, &status) == 0) {
        if (!S_ISREG(status.st_mode)) {
            return complain(path, S_ISDIR(status.st_mode) ? "is a folder" : "is not a regular file", message, message_size);
        }
        if (access(path, W_OK) != 0) {
            return complain(path, NULL, message, message_size);
        }
        file->path = realpath(path, NULL);
    } else if (errno == ENOENT && lstat(path, &status) == 0) {
        return complain(path, "is a symbolic link to nothing", message, message_size); /* it would be replaced, and not what it names */
    } else if (errno == ENOENT && path[0] != '\0' && path[strlen(path) - 1] != '/') {
        file->path = name_in_real_folder(path);
    }
    char *folder = file->path != NULL ? folder_of(file->path) : NULL;
    int bad = folder == NULL || access(folder, W_OK | X_OK) != 0;
    if (bad) {
        complain(path, NULL, message, message_size);
    }
    free(folder);
    return bad ? -1 : 0;
}

int output_replaces(const output_file *file, const char *other) {
    struct stat a;
    struct stat b;
    return file->path != NULL && stat(file->path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int output_same(const output_file *a, const output_file *b) {
    return a->path != NULL && b->path != NULL && (strcmp(a->path, b->path) == 0 || output_replaces(a, b->path));
}

/* Creates a new file beside file->path and enters it in the table. Returns its descriptor or -1. */
static int create_temporary(output_file *file) {
    int slot = 0;
    while (slot < OUTPUT_MAX && temporary_live[slot]) {
        slot++;
    }
    char *folder = slot < OUTPUT_MAX ? folder_of(file->path) : NULL;
    if (folder == NULL) {
        errno = ENOMEM;
        return -1;
    }
    install_handlers();
    sigset_t before;
    block_signals(&before);
    int descriptor = -1;
    errno = EEXIST;
    /* the name does not contain the final one, which may already be as long as a name can be */
    for (int attempt = 0; attempt < 100 && descriptor < 0 && errno == EEXIST; attempt++) {
        int length = snprintf(temporary_names[slot], PATH_MAX, "%s/.topkit-select.%ld.%d.%d", folder, (long)getpid(), slot, attempt);
        if (length >= PATH_MAX) {
            errno = ENAMETOOLONG;
            break;
        }
        descriptor = open(temporary_names[slot], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (descriptor >= 0) {
        temporary_live[slot] = 1;
        file->slot = slot + 1;
    }
    int error = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(folder);
    errno = error;
    return descriptor;
}

static int write_all(int descriptor, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes > 0) {
        ssize_t written = write(descriptor, at, bytes);
        if (written < 0 && errno != EINTR) {
            return -1;
        }
        if (written > 0) {
            at += written;
            bytes -= (size_t)written;
        }
    }
    return 0;
}

int output_stage(output_file *file, const void *header, size_t header_bytes, const void *data, size_t bytes, char *message,
                 size_t message_size) {
    if (file->path == NULL) {
        return 0;
    }
    int descriptor = create_temporary(file);
    if (descriptor < 0) {
        return complain(file->path, NULL, message, message_size);
    }
    struct stat existing;
    int bad = (stat(file->path, &existing) == 0 && fchmod(descriptor, existing.st_mode & 07777) != 0) ||
              write_all(descriptor, header, header_bytes) != 0 || write_all(descriptor, data, bytes) != 0 || fsync(descriptor) != 0;
    if (bad) {
        complain(file->path, NULL, message, message_size);
    }
    if (close(descriptor) != 0 && !bad) {
        bad = complain(file->path, NULL, message, message_size);
    }
    return bad ? -1 : 0;
}

/* So that the rename survives a power cut too. Not every file system can do it, and the data is safe already: no error. */
static void sync_folder(const char *path) {
    char *folder = folder_of(path);
    int descriptor = folder != NULL ? open(folder, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor >= 0) {
        fsync(descriptor);
        close(descriptor);
    }
    free(folder);
}

int output_commit(output_file *files, int count, char *message, size_t message_size) {
    sigset_t before;
    block_signals(&before);
    int bad = 0;
    for (int i = 0; i < count && !bad; i++) {
        if (files[i].slot == 0) {
            continue;
        }
        if (rename(temporary_names[files[i].slot - 1], files[i].path) != 0) {
            bad = complain(files[i].path, NULL, message, message_size);
        } else {
            temporary_live[files[i].slot - 1] = 0;
            files[i].slot = 0;
            sync_folder(files[i].path);
        }
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return bad;
}

void output_discard(output_file *files, int count) {
    sigset_t before;
    block_signals(&before);
    for (int i = 0; i < count; i++) {
        if (files[i].slot != 0) {
            unlink(temporary_names[files[i].slot - 1]);
            temporary_live[files[i].slot - 1] = 0;
            files[i].slot = 0;
        }
        free(files[i].path);
        files[i].path = NULL;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}
