/* test_npy.cpp: the .npy parser, header writer and reader (examples/tool/npy.h).
 *
 * The last two cases are the ones to run under sanitizers: every prefix and every one-byte change of a good file must be parsed without a
 * read outside, and what is accepted must be consistent with itself. fuzz_npy.c goes on from there.
 */
#include "npy.h"

#include <catch2/catch.hpp>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

/* A file's bytes: prefix for the version, dictionary, then `bytes` zero bytes. */
static std::string npy_file(int major, const std::string &dictionary, size_t bytes) {
    std::string text = dictionary + "\n";
    std::string file("\x93NUMPY", 6);
    file += static_cast<char>(major);
    file += '\0';
    for (int i = 0; i < (major == 1 ? 2 : 4); i++) {
        file += static_cast<char>(text.size() >> 8 * i);
    }
    return file + text + std::string(bytes, '\0');
}

/* Parses a copy that ends where the heap block ends, so that a sanitizer sees one byte too many. */
static std::string parse(const std::string &file, npy_array *out) {
    auto *copy = static_cast<unsigned char *>(std::malloc(file.size() + (file.empty() ? 1 : 0)));
    std::memcpy(copy, file.data(), file.size());
    const char *error = "";
    int code = npy_parse_header(copy, file.size(), out, &error);
    std::free(copy);
    REQUIRE((code == 0 || code == -1));
    return code == 0 ? "" : error;
}

static std::string parse_text(const std::string &dictionary) {
    npy_array out;
    return parse(npy_file(1, dictionary, 0), &out);
}

TEST_CASE("npy: a header as NumPy writes it", "[npy]") {
    npy_array a;
    for (int major = 1; major <= 3; major++) {
        std::string file = npy_file(major, "{'descr': '<f4', 'fortran_order': False, 'shape': (16, 32768), }            ", 8);
        REQUIRE(parse(file, &a) == "");
        CHECK(a.type == NPY_FLOAT32);
        CHECK(std::string(a.dtype) == "<f4");
        CHECK(a.rank == 2);
        CHECK(a.shape[0] == 16);
        CHECK(a.shape[1] == 32768);
        CHECK(a.count == 16u * 32768);
        CHECK(a.bytes == 4u * 16 * 32768);
        CHECK(a.data_offset == file.size() - 8);
        CHECK(a.data == nullptr);
    }
}

TEST_CASE("npy: types, shapes and spellings that are fine", "[npy]") {
    npy_array a;
    REQUIRE(parse(npy_file(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (7,)}", 0), &a) == "");
    CHECK((a.type == NPY_INT64 && a.rank == 1 && a.count == 7 && a.bytes == 56));
    REQUIRE(parse(npy_file(1, "{\"shape\":(3,4,),\"descr\":\"<i4\",\"fortran_order\":False}", 0), &a) == "");
    CHECK((a.type == NPY_INT32 && a.rank == 2 && a.count == 12 && a.bytes == 48));
    REQUIRE(parse(npy_file(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (3, 5), }", 30), &a) == "");
    CHECK((a.type == NPY_FLOAT16 && a.rank == 2 && a.count == 15 && a.bytes == 30));
    REQUIRE(parse(npy_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 0), &a) == "");
    CHECK((a.rank == 0 && a.count == 1 && a.bytes == 4));
    REQUIRE(parse(npy_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 0, 9223372036854775807), }", 0), &a) ==
            "the shape is too large for this machine");
    REQUIRE(parse(npy_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 0), }", 0), &a) == "");
    CHECK((a.rank == 2 && a.count == 0 && a.bytes == 0));
    REQUIRE(parse(npy_file(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (5, 2), }", 0), &a) == "");
    CHECK((a.type == NPY_OTHER && a.count == 10 && a.bytes == 0 && std::string(a.dtype) == "<f8"));
    REQUIRE(parse(npy_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,2,3,4,5,6,7,8)}", 0), &a) == "");
    CHECK((a.rank == NPY_MAX_RANK && a.count == 40320));
}

TEST_CASE("npy: headers that are refused, each for its own reason", "[npy]") {
    const char *const good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    CHECK(parse_text(good) == "");
    CHECK(parse_text("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }").find("big-endian") != std::string::npos);
    CHECK(parse_text("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }").find("Fortran") != std::string::npos);
    CHECK(parse_text("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2, 3), }").find("structured") != std::string::npos);
    CHECK(parse_text("{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3), }") == "fortran_order is neither True nor False");
    CHECK(parse_text("{'descr': '<f4', 'fortran_order': False, }").find("lacks") != std::string::npos);
    CHECK(parse_text("{}").find("lacks") != std::string::npos);
    for (const char *shape : {"2, 3", "(2 3)", "(2)", "(2,,3)", "(,)", "(2, -3)", "(2, 3", "(2, x)", "(2.0, 3)", "[2, 3]",
                              "(2L, 3L)", ""}) {
        INFO(shape);
        CHECK(parse_text(std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ") + shape + ", }") != "");
    }
    CHECK(parse_text("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808, 1), }").find("number") != std::string::npos);
    CHECK(parse_text("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }").find("large") != std::string::npos);
    for (const char *text : {"", "{", "}", "{'descr'}", "{'descr': }", "{'descr': '<f4'", "{'descr': '<f4}", "{'descr': \"<f4'}",
                             "{'de\\scr': '<f4'}", "{descr: '<f4'}", "{'descr': 'a text of more than sixteen bytes'}",
                             "{'descr': '<f4' 'shape': (2, 3)}",
                             "{, 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3),,}",
                             "{'descr': '\t', 'fortran_order': False, 'shape': (2, 3)}"}) {
        INFO(text);
        CHECK(parse_text(text) != "");
    }
    npy_array a;
    CHECK(parse(npy_file(4, good, 0), &a).find("version") != std::string::npos);
    CHECK(parse(npy_file(0, good, 0), &a).find("version") != std::string::npos);
    std::string minor = npy_file(1, good, 0);
    minor[7] = 1;
    CHECK(parse(minor, &a).find("version") != std::string::npos);
    CHECK(parse(npy_file(2, std::string(NPY_MAX_HEADER, ' '), 0), &a).find("longer than 65536") != std::string::npos);
    CHECK(parse("PK\x03\x04 an .npz", &a) == "not a .npy file");
    CHECK(a.rank == 0);
    CHECK(a.dtype[0] == '\0');
}

TEST_CASE("npy: what the writer writes the parser reads back", "[npy]") {
    for (long long rows : {0LL, 1LL, 16LL, static_cast<long long>(INT_MAX)}) {
        for (long long columns : {0LL, 7LL, 2048LL}) {
            const long long shape[2] = {rows, columns};
            for (npy_type type : {NPY_FLOAT32, NPY_INT32, NPY_INT64, NPY_FLOAT16}) {
                for (int rank = 1; rank <= 2; rank++) {
                    unsigned char header[NPY_HEADER_BYTES];
                    npy_format_header(type, rank, shape, header);
                    npy_array a;
                    REQUIRE(parse(std::string(reinterpret_cast<char *>(header), sizeof header), &a) == "");
                    CHECK((a.type == type && a.rank == rank && a.shape[0] == rows && a.data_offset == NPY_HEADER_BYTES));
                    CHECK((rank == 1 || a.shape[1] == columns));
                    CHECK(header[NPY_HEADER_BYTES - 1] == '\n');
                }
            }
        }
    }
    unsigned char header[NPY_HEADER_BYTES];
    const long long largest[2] = {LLONG_MAX, LLONG_MAX};
    npy_format_header(NPY_FLOAT32, 2, largest, header);
    npy_array a;
    CHECK(parse(std::string(reinterpret_cast<char *>(header), sizeof header), &a) == "the shape is too large for this machine");
}

/* Writes `bytes` to a file of its own and reads it as an array. */
static std::string read_back(const std::string &bytes, npy_array *out) {
    char path[] = "/tmp/topkit-npy-XXXXXX";
    int descriptor = mkstemp(path);
    REQUIRE(descriptor >= 0);
    REQUIRE(write(descriptor, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    close(descriptor);
    char message[NPY_MESSAGE] = "";
    int code = npy_read(path, out, message, sizeof message);
    unlink(path);
    std::string text = message;
    REQUIRE((code == 0) == text.empty());
    CHECK((text.empty() || text.compare(0, sizeof path + 1, std::string(path) + ": ") == 0));
    return text;
}

TEST_CASE("npy: reading files", "[npy]") {
    std::string file = npy_file(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }", 0);
    const int32_t numbers[3] = {7, -1, INT_MAX};
    file.append(reinterpret_cast<const char *>(numbers), sizeof numbers);
    npy_array a;
    REQUIRE(read_back(file, &a) == "");
    CHECK(std::memcmp(a.data, numbers, sizeof numbers) == 0);
    npy_free(&a);
    CHECK(a.data == nullptr);

    for (size_t size = 0; size < file.size(); size++) {
        CHECK(read_back(file.substr(0, size), &a) != "");
        CHECK(a.data == nullptr);
    }
    CHECK(read_back(file + '\0', &a).find("goes on behind") != std::string::npos);

    /* longer than what the reader takes in at first */
    std::string large = npy_file(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 100000), }", 1200000);
    large[large.size() - 1] = 'x';
    REQUIRE(read_back(large, &a) == "");
    CHECK(static_cast<char *>(a.data)[1199999] == 'x');
    npy_free(&a);
    CHECK(read_back(large.substr(0, large.size() - 1), &a).find("truncated") != std::string::npos);
    CHECK(read_back(large + 'x', &a).find("goes on behind") != std::string::npos);

    char message[NPY_MESSAGE];
    CHECK(npy_read("/nowhere/at/all.npy", &a, message, sizeof message) == -1);
    CHECK(std::string(message) == "/nowhere/at/all.npy: No such file or directory");
    CHECK(npy_read("/tmp", &a, message, sizeof message) == -1);
    CHECK(std::string(message) == "/tmp: Is a directory");
}

static void check_consistent(const npy_array &a, size_t size) {
    CHECK(a.data_offset <= size);
    CHECK((a.rank >= 0 && a.rank <= NPY_MAX_RANK));
    unsigned long long product = 1;
    for (int d = 0; d < a.rank; d++) {
        product *= static_cast<unsigned long long>(a.shape[d]);
    }
    CHECK(a.count == product);
    CHECK(a.bytes == product * (a.type == NPY_INT64 ? 8u : a.type == NPY_FLOAT16 ? 2u : a.type == NPY_OTHER ? 0u : 4u));
}

TEST_CASE("npy: every prefix of a file", "[npy]") {
    std::string file = npy_file(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24);
    npy_array a;
    for (size_t size = 0; size <= file.size(); size++) {
        CHECK((parse(file.substr(0, size), &a) == "") == (size >= file.size() - 24));
    }
}

TEST_CASE("npy: every change of one byte", "[npy]") {
    const std::string file = npy_file(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (21, 3), }", 0);
    npy_array a;
    int accepted = 0;
    for (size_t at = 0; at < file.size(); at++) {
        for (int byte = 0; byte < 256; byte++) {
            std::string changed = file;
            changed[at] = static_cast<char>(byte);
            if (parse(changed, &a) == "") {
                accepted++;
                check_consistent(a, changed.size());
            }
        }
    }
    CHECK(accepted > static_cast<int>(file.size())); /* the unchanged ones, and other digits */
}
