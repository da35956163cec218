# amalgamate.awk: prints topkit_single.cuh, the whole library as one header that includes nothing.
#
#   awk -f amalgamate.awk -v version=0.1.0 -v folder=include topkit/topkit.cuh > topkit_single.cuh
#
# Each `#include "topkit/x"` is replaced by the text of that header where it is first met, and dropped where it is met again. Guards
# stay, so that the single header and the separate ones may meet in one translation unit. An include inside an #if other than the
# header's own guard is refused: dropping its second copy could drop the only one that is compiled. So is any other include.

function fail(file, line, why) {
    print file ":" line ": " why > "/dev/stderr"
    failed = 1
    exit 1
}

function emit(name,    path, text, number, depth, got, inner) {
    seen[name] = 1
    path = folder "/" name
    while ((got = (getline text < path)) > 0) {
        number++
        if (text ~ /^[ \t]*#[ \t]*if/) depth++
        if (text ~ /^[ \t]*#[ \t]*endif/) depth--
        if (text !~ /^[ \t]*#[ \t]*include/) {
            print text
            continue
        }
        if (text !~ /^#include "topkit\/[a-z0-9_.]+"/) fail(path, number, "an include from outside the library")
        if (depth > 1) fail(path, number, "an include inside a condition")
        split(text, inner, "\"")
        if (!(inner[2] in seen)) emit(inner[2])
    }
    if (got < 0) fail(path, 0, "cannot be read")
    close(path)
}

BEGIN {
    print "/* topkit " version ": exact Top-K selection for CUDA kernels, as a single header."
    print " * Made from the headers in include/topkit by include/amalgamate.awk: change those. Licence: Apache-2.0. */"
    emit(ARGV[1])
    exit failed
}
