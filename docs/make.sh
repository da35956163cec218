#!/bin/sh
# make.sh: writes what the documentation copies from sources: the pages of docs/blocks, and the code quoted in README.md and docs/*.md.
#
#   sh docs/make.sh            rewrites them in place: after a change of a header's head comment or of a quoted source
#   sh docs/make.sh FOLDER     writes them below FOLDER instead (docs/test.sh compares)
#
# A page is a header's first comment, as Markdown: indented lines become a block of text, others paragraphs. Its usage is the region of
# tests/test_usage*.cu from a line with `[cut NAME]` to one with `[end]`; a header in topkit.cuh that has none is an error. A quote is a
# fenced block behind a line `<!-- cut NAME from FILE -->`.
set -u
cd "$(dirname "$0")/.." || exit 1
to=${1:-.}
mkdir -p "$to/docs/blocks" || exit 1

fail() {
    echo "docs/make.sh: $*" >&2
    exit 1
}

# the region NAME of FILE
region() {
    awk -v name="$1" '
        /\[end\]/ { on = 0 }
        on { print; lines++ }
        index($0, "[cut " name "]") { on = 1 }
        END { exit lines == 0 }' "$2"
}

# the first comment of a header as Markdown, behind a heading
head_page() {
    awk -v name="$1" '
        function prose(text,    part, count, i, result) { # what Markdown would take for its own is escaped, outside of `code`
            count = split(text, part, "`")
            for (i = 1; i <= count; i++) {
                if (i % 2) {
                    gsub(/[*<\[]/, "\\\\&", part[i])
                    gsub(/__/, "\\_\\_", part[i])
                }
                result = result (i > 1 ? "`" : "") part[i]
            }
            return result
        }
        function fence(wanted) {
            if (wanted != fenced) print (wanted ? "```text" : "```")
            fenced = wanted
        }
        NR == 1 {
            sub(/^\/\* [^:]*: /, "")
            print "# " name "\n\n[include/topkit/" name ".cuh](../../include/topkit/" name ".cuh): " prose($0)
            next
        }
        /\*\/$/ { fence(0); exit }
        { sub(/^ \* ?/, "") }
        /^  / { fence(1); print; next }
        { fence(0); print prose($0) }' "$2"
}

index_page=$to/docs/blocks/README.md
{
    echo '<!-- Written by docs/make.sh from the headers: change those. -->'
    echo '# The blocks'
    echo
    echo 'In the order in which they build on each other; all of them: `#include "topkit/topkit.cuh"`.'
    echo
    echo '| block | what it is |'
    echo '|---|---|'
} >"$index_page"
for name in $(sed -n 's|^#include "topkit/\([a-z_]*\)\.cuh"$|\1|p' include/topkit/topkit.cuh); do
    case $name in config | ptx) continue ;; esac
    header=include/topkit/$name.cuh
    source=$(grep -l "\[cut $name\]" tests/test_usage*.cu) || fail "no usage example for $header in tests/test_usage*.cu"
    {
        echo "<!-- Written by docs/make.sh from $header and $source: change those. -->"
        head_page "$name" "$header"
        printf '\n## Usage\n\nCompiled, run and checked by [%s](../../%s).\n\n```cuda\n' "$source" "$source"
        region "$name" "$source" || fail "$source: the usage of $name is empty"
        echo '```'
    } >"$to/docs/blocks/$name.md" || exit 1
    echo "| [$name]($name.md) | $(sed -n '1s|^/\* [^:]*: ||p' "$header") |" >>"$index_page"
done

for page in README.md docs/*.md; do
    awk '
        function fail(why) { print FILENAME ":" FNR ": " why > "/dev/stderr"; failed = 1; exit 1 }
        state == 2 { if (/^```/) { print; state = 0 } next }
        state == 1 {
            if (!/^```/) fail("a quote must follow at once")
            print
            while ((got = (getline text < file)) > 0) {
                if (text ~ /\[end\]/) on = 0
                if (on) { print text; lines++ }
                if (index(text, "[cut " name "]")) on = 1
            }
            close(file)
            if (got < 0 || lines == 0) fail("no region " name " in " file)
            state = 2
            next
        }
        { print }
        /^<!-- cut / { name = $3; file = $5; on = lines = 0; state = 1 }
        END { if (!failed && state) fail("a quote has no end"); exit failed }' "$page" >"$to/$page.new" || exit 1
    cat "$to/$page.new" >"$to/$page"
    rm "$to/$page.new"
done
