#!/bin/sh
# Counts the instructions of a fixed workload under callgrind: a figure that a noisy machine does
# not move, to tell a change of the code from a change of the weather. It knows nothing of caches,
# bandwidth or the width of an instruction, so it compares one rung with itself only.
#     sh tests/bench/count_instructions.sh BUILD_FOLDER [MODEL [WORD ...]]
# Without MODEL: the tiny models of tests/golden, which are nearly all overhead. With the default
# model it is nearly all kernels, and takes a minute or two a line. WORDs choose lines of
# bench_engine. Counted are the engine's steps (step_run and what it calls) on one thread; loading
# is not. The same build gives the same count to about 1 in 10,000.
set -eu
build=${1:?usage: count_instructions.sh BUILD_FOLDER [MODEL [WORD ...]]}
shift
tiny=$(dirname "$0")/../golden/fixtures/tiny_llama
if [ $# -gt 0 ]; then
    models=$1
    shift
else
    models="$tiny/tied.gguf $tiny/rope31.gguf $tiny/quant.gguf"
fi
[ $# -gt 0 ] || set -- prefill-64 decode-1 batch-8

log=$(mktemp)
trap 'rm -f "$log"' EXIT
printf '%-36s %-12s %16s\n' model line instructions
for model in $models; do
    for word in "$@"; do
        valgrind --tool=callgrind --toggle-collect=step_run --callgrind-out-file=/dev/null \
            "$build/tests/bench/bench_engine" "$model" --threads 1 --once "$word" \
            >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
        count=$(sed -n 's/^==[0-9]*== Collected : //p' "$log")
        printf '%-36s %-12s %16s\n' "$(basename "$model")" "$word" "${count:-?}"
    done
done
