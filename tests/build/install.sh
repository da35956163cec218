# install.sh: what is installed can be used through pkg-config, CMake and Meson, with a plain C and C++ host compiler.
#
# Installs the build folder $build below a folder of its own. Each consumer prints the version that version.h has. A subproject is
# configured with CUDA, executor and tests off, which is how a machine without any of them sees topkit.
. "${0%/*}/common.sh"

prefix=$work/installed
check "meson install" sh -c "\"$meson\" install -C \"$build\" --no-rebuild --quiet --destdir \"$prefix\" 2>&1 | grep -i error; true"
config=$(find "$prefix" -name topkit.pc | head -n 1)
[ -n "$config" ] || fail "topkit.pc was not installed"
top=${config%/share/pkgconfig/topkit.pc}
cat >use.c <<'END'
#include <topkit/version.h>
#include <stdio.h>
int main(void) { return printf("%d.%d.%d\n", TOPKIT_VERSION_MAJOR, TOPKIT_VERSION_MINOR, TOPKIT_VERSION_PATCH) < 0; }
END
cp use.c use.cpp

says_version() {
    checks=$((checks + 1))
    [ "$("$2")" = "$version" ] || fail "$1 does not give version $version"
}

if command -v pkg-config >/dev/null; then
    # shellcheck disable=SC2046 # a list of flags
    check "a C program by pkg-config" cc -std=c11 -Wall -Werror \
        $(PKG_CONFIG_PATH=${config%/*} pkg-config --define-variable=prefix="$top" --cflags topkit) use.c -o use_pc
    says_version pkg-config ./use_pc
else
    echo "left out: no pkg-config"
fi

if command -v cmake >/dev/null; then
    mkdir cmake
    cat >cmake/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.16)
project(use CXX)
find_package(topkit ${version%.*} REQUIRED)
add_executable(use ../use.cpp)
target_link_libraries(use PRIVATE topkit::topkit)
END
    check "CMake's find_package" sh -c "{ cmake -S cmake -B cmake/build -DCMAKE_PREFIX_PATH=\"$top\" && cmake --build cmake/build; } \
        >out 2>&1 || cat out"
    says_version CMake cmake/build/use
else
    echo "left out: no cmake"
fi

mkdir -p parent/subprojects
ln -s "$source" parent/subprojects/topkit
cp use.c parent/
cat >parent/meson.build <<'END'
project('use', 'c')
executable('use', 'use.c', dependencies: dependency('topkit', fallback: 'topkit', default_options: ['cuda=disabled']))
END
check "a Meson subproject" sh -c "cd parent && { \"$meson\" setup --wrap-mode=forcefallback build && ninja -C build; } >out 2>&1 || cat out"
says_version "a Meson subproject" parent/build/use

for header in topkit/topkit.cuh topkit_single.cuh; do
    [ -f "$top/include/$header" ] || fail "$header was not installed"
done
finish
