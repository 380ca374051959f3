#!/bin/sh
# Sets up and passes the tests: installs what is missing, fetches two models, builds, runs every
# suite, and closes with a line "N passed, N failed, N skipped".
#     sh tests/run.sh [--compiler CC] [--sanitize address,undefined|thread] [SUITE ...]
#     sh tests/run.sh --cross aarch64 [SUITE ...]      built for another CPU, run by an emulator
# Without a suite, all of them. Tests that need data which is not here skip and say so.
set -eu
cd "$(dirname "$0")/.."
# Debian's python3 is the one that sees Debian's Python packages.
PATH=/usr/bin:$PATH

compiler=
sanitize=none
cross=
packages=test
while [ $# -gt 0 ]; do
    case $1 in
    --compiler) compiler=${2:?--compiler needs a name}; shift 2 ;;
    --sanitize) sanitize=${2:?--sanitize needs a list}; shift 2 ;;
    --cross) cross=${2:?--cross needs a CPU}; packages=cross; shift 2 ;;
    -*) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2 ;;
    *) break ;;
    esac
done

sh deploy/packages.sh "$packages"
if [ -z "${MAGNETD_MODEL:-}" ]; then
    if MAGNETD_MODEL=$(sh deploy/fetch_model.sh); then
        export MAGNETD_MODEL
    else
        echo "run.sh: the default model is not here; tests on it will skip" >&2
        unset MAGNETD_MODEL
    fi
fi
if [ -z "${MAGNETD_MINILM:-}" ]; then
    if MAGNETD_MINILM=$(sh deploy/fetch_model.sh minilm); then
        export MAGNETD_MINILM
    else
        echo "run.sh: all-MiniLM-L6-v2 is not here; tests on it will skip" >&2
        unset MAGNETD_MINILM
    fi
fi

build=build-test${compiler:+-$compiler}
multiplier=1
options=
if [ "$sanitize" != none ]; then
    build=$build-$(echo "$sanitize" | tr , -)
    multiplier=10
    # clang links sanitizers into programs only, so its libraries have names left undefined.
    options="-Db_sanitize=$sanitize -Db_lundef=false"
fi
if [ -n "$cross" ]; then
    build=$build-$cross
    multiplier=10
    options="$options --cross-file tests/cross/$cross.ini -Dserver=disabled"
fi
if [ ! -f "$build/build.ninja" ]; then
    CC=${compiler:-${CC:-cc}} meson setup "$build" $options
fi
ninja -C "$build"

suites=
for suite in "$@"; do
    suites="$suites --suite $suite"
done
status=0
# One more at a time than there are CPUs: a test often waits for what it started.
meson test -C "$build" --no-rebuild --num-processes "$(($(nproc) + 1))" --print-errorlogs \
    --timeout-multiplier "$multiplier" $suites || status=$?
python3 tests/summary.py "$build" || status=1
exit "$status"
