/* test_output.cpp: outputs appear whole or not at all (examples/tool/output.h), also when a signal ends the program. */
#include "output.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A folder of its own for each case. */
struct folder {
    std::string path;
    folder() {
        char name[] = "/tmp/topkit-output-XXXXXX";
        REQUIRE(mkdtemp(name) != nullptr);
        path = name;
    }
    ~folder() {
        for (const std::string &name : names()) {
            std::remove((path + "/" + name).c_str());
        }
        rmdir(path.c_str());
    }
    std::set<std::string> names() const {
        std::set<std::string> found;
        DIR *directory = opendir(path.c_str());
        while (dirent *entry = directory != nullptr ? readdir(directory) : nullptr) {
            if (std::string(entry->d_name) != "." && std::string(entry->d_name) != "..") {
                found.insert(entry->d_name);
            }
        }
        closedir(directory);
        return found;
    }
    std::string operator/(const char *name) const { return path + "/" + name; }
};

static std::string content(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

static void put(const std::string &path, const char *text) {
    std::ofstream(path) << text;
}

static int stage(output_file *file, const std::string &path, const std::string &text, std::string *error) {
    char message[8192] = "";
    int code = output_check(file, path.c_str(), message, sizeof message);
    if (code == 0) {
        code = output_stage(file, text.data(), 3, text.data() + 3, text.size() - 3, message, sizeof message);
    }
    *error = message;
    return code;
}

TEST_CASE("output: nothing changes before the commit, everything at it", "[output]") {
    folder f;
    std::string error;
    char message[8192];
    put(f / "old", "old content");
    output_file files[OUTPUT_MAX] = {};
    REQUIRE(stage(&files[0], f / "old", "first result", &error) == 0);
    REQUIRE(stage(&files[1], f / "new", "second result", &error) == 0);
    CHECK(f.names().size() == 3);
    CHECK(f.names().count("new") == 0);
    CHECK(content(f / "old") == "old content");
    REQUIRE(output_commit(files, OUTPUT_MAX, message, sizeof message) == 0);
    CHECK(f.names() == std::set<std::string>{"new", "old"});
    CHECK(content(f / "old") == "first result");
    CHECK(content(f / "new") == "second result");
    output_discard(files, OUTPUT_MAX);
    CHECK(f.names() == std::set<std::string>{"new", "old"});
}

TEST_CASE("output: discard leaves the folder as it was", "[output]") {
    folder f;
    std::string error;
    put(f / "old", "old content");
    output_file files[OUTPUT_MAX] = {};
    REQUIRE(stage(&files[0], f / "old", "first result", &error) == 0);
    REQUIRE(stage(&files[1], f / "new", "second result", &error) == 0);
    output_discard(files, OUTPUT_MAX);
    CHECK(f.names() == std::set<std::string>{"old"});
    CHECK(content(f / "old") == "old content");
}

TEST_CASE("output: an unwanted one is passed over", "[output]") {
    char message[64];
    output_file none = {};
    CHECK(output_stage(&none, "x", 1, "y", 1, message, sizeof message) == 0);
    CHECK(output_commit(&none, 1, message, sizeof message) == 0);
    CHECK_FALSE(output_replaces(&none, "/tmp"));
    CHECK_FALSE(output_same(&none, &none));
    output_discard(&none, 1);
}

TEST_CASE("output: paths that are refused", "[output]") {
    folder f;
    std::string error;
    put(f / "file", "text");
    REQUIRE(mkfifo((f / "pipe").c_str(), 0600) == 0);
    for (const std::string &path : {std::string(), f.path, f.path + "/", f / "pipe", f / "file/x", f / "none/x", f / "new/",
                                    std::string("/dev/null"),
                                    f / std::string(300, 'x').c_str()}) {
        INFO(path);
        output_file file = {};
        CHECK(stage(&file, path, "result", &error) == -1);
        CHECK(error.compare(0, path.size() + 2, path + ": ") == 0);
        output_discard(&file, 1);
    }
    CHECK(f.names() == std::set<std::string>{"file", "pipe"});
    CHECK(content(f / "file") == "text");
}

TEST_CASE("output: the longest name that a file can have", "[output]") {
    folder f;
    std::string error;
    char message[8192];
    std::string name(255, 'x');
    output_file file = {};
    REQUIRE(stage(&file, f / name.c_str(), "result", &error) == 0);
    REQUIRE(output_commit(&file, 1, message, sizeof message) == 0);
    CHECK(f.names() == std::set<std::string>{name});
    output_discard(&file, 1);
}

TEST_CASE("output: links and permissions", "[output]") {
    folder f;
    std::string error;
    char message[8192];
    put(f / "file", "old content");
    REQUIRE(chmod((f / "file").c_str(), 0640) == 0);
    REQUIRE(symlink("file", (f / "alias").c_str()) == 0);
    output_file files[OUTPUT_MAX] = {};
    REQUIRE(stage(&files[0], f / "alias", "new content", &error) == 0);
    CHECK(output_replaces(&files[0], (f / "file").c_str()));
    REQUIRE(output_check(&files[1], (f / "file").c_str(), message, sizeof message) == 0);
    CHECK(output_same(&files[0], &files[1]));
    REQUIRE(output_commit(files, OUTPUT_MAX, message, sizeof message) == 0);
    output_discard(files, OUTPUT_MAX);
    CHECK(f.names() == std::set<std::string>{"alias", "file"});
    CHECK(content(f / "file") == "new content");
    struct stat status;
    REQUIRE(stat((f / "file").c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0640);

    output_file twice[OUTPUT_MAX] = {};
    REQUIRE(output_check(&twice[0], (f / "new").c_str(), message, sizeof message) == 0);
    REQUIRE(output_check(&twice[1], (f.path + "/./new").c_str(), message, sizeof message) == 0);
    CHECK(output_same(&twice[0], &twice[1]));
    output_discard(twice, OUTPUT_MAX);
}

TEST_CASE("output: a signal ends the program and leaves nothing", "[output]") {
    for (int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
        folder f;
        put(f / "old", "old content");
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            std::signal(signal_number, SIG_DFL);
            output_file files[OUTPUT_MAX] = {};
            std::string error;
            int bad = stage(&files[0], f / "old", "first result", &error) != 0 || stage(&files[1], f / "new", "second result", &error) != 0;
            if (!bad && f.names().size() == 3) {
                raise(signal_number);
            }
            _exit(1);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status));
        CHECK(WTERMSIG(status) == signal_number);
        CHECK(f.names() == std::set<std::string>{"old"});
        CHECK(content(f / "old") == "old content");
    }
}
