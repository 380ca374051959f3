#!/bin/sh
# From a clean clone on Debian 12 to answers: installs what is missing, builds, fetches the default
# model, starts the server on 127.0.0.1 and shows one call of each endpoint. The server then stays
# in the foreground until Ctrl-C.
#     sh deploy/quickstart.sh [--port N] [--demo]
# --port 0 takes any free port; --demo stops the server after the calls. MAGNETD_MODEL names another
# model file.
set -eu
cd "$(dirname "$0")/.."

port=8080
demo=no
while [ $# -gt 0 ]; do
    case $1 in
    --port) port=${2:?--port needs a number}; shift 2 ;;
    --demo) demo=yes; shift ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
done

fail() {
    echo "quickstart.sh: $*" >&2
    exit 1
}

build() {
    sh deploy/packages.sh build
    if [ ! -f build/build.ninja ]; then
        meson setup build --buildtype=release -Dtests=false >build.log 2>&1 ||
            { tail -20 build.log; fail "the build could not be set up"; }
        mv build.log build/setup.log
    fi
    ninja -C build server/magnetd
}

log=build/magnetd.log
pid=
work=$(mktemp -d)
# Ends the server and hands on how it ended.
stop_server() {
    status=0
    if [ -n "$pid" ]; then
        kill -TERM "$pid" 2>/dev/null || true
        wait "$pid" || status=$?
        pid=
    fi
    return "$status"
}
trap 'stop_server || true; rm -rf "$work"' EXIT

# Waits for a command to succeed, 60 s at most, while the server lives.
wait_until() {
    tries=0
    until "$@"; do
        kill -0 "$pid" 2>/dev/null ||
            { tail -5 "$log"; fail "the server ended; its last messages are above"; }
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || fail "the server is not ready after 60 s"
        sleep 0.1
    done
}

has_address() { grep -q '^listening on http://' "$work/stdout"; }
is_ready() { curl --silent --fail --output /dev/null "$url/ready"; }

# call PATH BODY: shows the call as one would type it, and its answer.
call() {
    echo
    echo "\$ curl $url$1 --json '$2'"
    curl --silent --show-error --fail-with-body --max-time 120 "$url$1" --json "$2" ||
        fail "$1 was not answered"
    echo
}

build
model=${MAGNETD_MODEL:-$(sh deploy/fetch_model.sh)}
: >"$work/stdout"
build/server/magnetd --model "$model" --host 127.0.0.1 --port "$port" \
    >"$work/stdout" 2>"$log" &
pid=$!
trap 'exit 130' INT
trap 'exit 143' TERM
wait_until has_address
url=$(sed -n 's/^listening on //p' "$work/stdout")
wait_until is_ready

call /embed '{"inputs":["A red fox ran by.","The stock market fell."],"dimensions":6}'
call /infill '{"text":"The capital of France is [gap], a large city.","max_tokens":3}'
call /generate '{"inputs":"Once upon a time","parameters":{"max_new_tokens":24}}'
call /classify '{"prompt":"How do I bake bread?","response":"Mix flour, water, salt and yeast."}'

if [ "$demo" = yes ]; then
    stop_server || fail "the server did not stop cleanly"
    exit 0
fi
echo
echo "magnetd answers on $url and logs to $log; Ctrl-C stops it."
trap 'stop_server; exit $?' INT TERM
status=0
wait "$pid" || status=$?
pid=
exit "$status"
