#!/bin/sh
# Installs the Debian 12 packages that are missing for a purpose, and nothing when none is:
#     sh deploy/packages.sh build | test | cross | ci | list PURPOSE
# cross: what tests/run.sh --cross aarch64 needs beside test.
# One list for the README's commands, for CI and for images.
set -eu

build="gcc libc6-dev meson ninja-build pkg-config python3 libmicrohttpd-dev libjansson-dev
    libopenblas-pthread-dev libutf8proc-dev"
run="ca-certificates curl python3-pip"
test="libcmocka-dev node-llhttp python3-jinja2 python3-jsonschema wrk"
cross="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static libcmocka-dev:arm64
    libjansson-dev:arm64 libopenblas-pthread-dev:arm64 libutf8proc-dev:arm64"
ci="ccache chromium clang clang-format-14 git libclang-rt-14-dev llvm"

packages_of() {
    case $1 in
    build) echo $build $run ;;
    test) echo $build $run $test ;;
    cross) echo $build $run $test $cross ;;
    ci) echo $build $run $test $cross $ci ;;
    *) echo "packages.sh: no such purpose: $1" >&2; exit 2 ;;
    esac
}

# NAME is this machine's, NAME:ARCHITECTURE another's; with both there, a query for NAME lists both.
is_installed() {
    case $1 in
    *:*) architecture=${1#*:} ;;
    *) architecture=$(dpkg --print-architecture) ;;
    esac
    dpkg-query -W -f '${Architecture} ${Status}\n' "$1" 2>/dev/null |
        grep -Eq "^($architecture|all) install ok installed\$"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "packages.sh: run this as root, then start again: $*" >&2
        exit 1
    fi
}

if [ "${1:-}" = list ]; then
    packages_of "${2:-}"
    exit 0
fi
wanted=$(packages_of "${1:-}")
missing=
if ! command -v dpkg-query >/dev/null; then
    echo "packages.sh: this is no Debian; see the list with: sh deploy/packages.sh list $1" >&2
    exit 0
fi
for package in $wanted; do
    is_installed "$package" || missing="$missing $package"
done
if [ -n "$missing" ]; then
    echo "installing:$missing" >&2
    case $missing in
    *:arm64*) as_root dpkg --add-architecture arm64 ;;
    esac
    as_root apt-get update -qq >&2
    # Unattended, and without the documentation and services that are only recommended.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        $missing >&2
fi
