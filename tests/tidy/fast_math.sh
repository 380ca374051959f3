#!/bin/sh
# Goal: no way of passing a flag that lets the compiler reorder floating point gets past the build.
# Method: configure into a temporary folder with each flag by each route; each has to be refused
# with the reason. A harmless flag shows that it is the flag that is refused.
set -eu
source_dir=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

configure() {
    rm -rf "$work/build"
    meson setup "$@" -Dtests=false "$work/build" "$source_dir" >"$work/log" 2>&1
}

refused() {
    if "$@"; then
        echo "accepted: $*"
        exit 1
    fi
    if ! grep -q 'breaks bit-identical results and is refused' "$work/log"; then
        echo "failed for another reason: $*"
        tail -5 "$work/log"
        exit 1
    fi
}

configure -Dc_args=-fno-plt || { echo "a harmless flag is refused"; tail -5 "$work/log"; exit 1; }
for flag in -ffast-math -Ofast -funsafe-math-optimizations -ffinite-math-only; do
    refused configure "-Dc_args=$flag"
done
refused configure "-Dc_args=-O2 -ffast-math"
CFLAGS=-ffast-math refused configure
echo "all refused"
