# setup.sh: sourced by tests/run.sh and examples/demo.sh from the top folder; makes the machine ready to build.
#
#   need_packages PACKAGE...     installs the Debian packages that are missing, as root or with sudo
#   need_meson                   sets $meson: the system's if it is 1.7 or later, else from PyPI into .venv
#   find_cuda                    puts nvcc on PATH; sets $cuda (enabled, disabled) and $gpu (the architecture to build for)
#   configure FOLDER OPTION...   meson setup, or --reconfigure where FOLDER is configured already
#
# Each says what it does, asks nothing and does nothing twice. Without a network all of it works where nothing is missing.

say() {
    printf '== %s\n' "$*"
}

need_packages() {
    missing=
    command -v dpkg-query >/dev/null 2>&1 || { say "not a Debian system: these packages' counterparts are needed: $*"; return 0; }
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || { say "Debian packages: all there ($*)"; return 0; }
    as_root=
    [ "$(id -u)" = 0 ] || as_root='sudo'
    say "installing Debian packages:$missing"
    # shellcheck disable=SC2086  # a list of words
    if ! { $as_root apt-get update -q && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -q -y --no-install-recommends $missing; } \
            >"${TMPDIR:-/tmp}/topkit-apt.$$" 2>&1; then
        tail -n 5 "${TMPDIR:-/tmp}/topkit-apt.$$"
        say "could not install:$missing; going on without"
    fi
    rm -f "${TMPDIR:-/tmp}/topkit-apt.$$"
}

# Is $1 a Meson of 1.7 or later?
meson_is_new() {
    version=$("$1" --version 2>/dev/null) || return 1
    major=${version%%.*}
    minor=${version#*.}
    minor=${minor%%.*}
    [ "$major" -gt 1 ] || { [ "$major" -eq 1 ] && [ "$minor" -ge 7 ]; }
}

need_meson() {
    if command -v ninja >/dev/null 2>&1 && meson_is_new meson; then
        meson=meson
        say "Meson $(meson --version): the system's"
        return 0
    fi
    meson=$PWD/.venv/bin/meson
    PATH=$PWD/.venv/bin:$PATH
    if meson_is_new "$meson" && [ -x .venv/bin/ninja ]; then
        say "Meson $("$meson" --version): from .venv"
        return 0
    fi
    python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || need_packages python3-venv
    say "installing Meson and Ninja from PyPI into .venv"
    if ! { python3 -m venv .venv && .venv/bin/python -m pip install -q --disable-pip-version-check 'meson>=1.7,<2' ninja; }; then
        say "Meson 1.7 or later and Ninja are needed and could not be installed: put them on PATH and run this again"
        exit 1
    fi
}

find_cuda() {
    command -v nvcc >/dev/null 2>&1 || { [ -x /usr/local/cuda/bin/nvcc ] && PATH=$PATH:/usr/local/cuda/bin; }
    cuda=disabled
    gpu=none
    command -v nvcc >/dev/null 2>&1 && cuda=enabled
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. ') || capability=
    case $capability in
        90 | 100) gpu=${capability}a ;;
        [0-9]*) gpu=$capability ;;
    esac
    if [ $cuda = disabled ]; then
        say "nvcc was not found: building for the CPU executor only"
    elif [ "$gpu" = none ]; then
        say "nvcc found, and no GPU"
    else
        say "nvcc and a GPU found: building for sm_$gpu"
    fi
}

configure() {
    folder=$1
    shift
    log=${TMPDIR:-/tmp}/topkit-configure.$$
    again=
    [ -f "$folder/build.ninja" ] && again=--reconfigure
    say "configuring $folder"
    # shellcheck disable=SC2086  # nothing or one word
    "$meson" setup $again "$folder" "$@" >"$log" 2>&1 || { tail -n 20 "$log"; rm -f "$log"; exit 1; }
    rm -f "$log"
}
