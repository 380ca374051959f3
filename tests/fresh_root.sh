#!/bin/sh
# Goal: the README's two commands work for a person with a fresh Debian 12 and a clean clone.
# Method: debootstrap makes such a root in a temporary folder; the last commit is cloned into it;
# the commands are taken from README.md, word for word, and run there, the first until its server
# has answered and says how to stop it. Namespaces of its own end every process and mount with it.
#     sh tests/fresh_root.sh [--keep]
# Needs root and debootstrap (exit 77 without); takes some minutes and 3 GB. The mirror, the pip
# settings and the trusted certificates are this machine's.
set -eu
source_dir=$(cd "$(dirname "$0")/.." && pwd)
command_seconds_max=1500

skip() {
    echo "skipped: $*"
    exit 77
}

[ "$(id -u)" = 0 ] || skip "only root can make a root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"

# The rest runs in namespaces of its own.
if [ "${FRESH_ROOT_INSIDE:-}" != yes ]; then
    work=$(mktemp -d)
    status=0
    FRESH_ROOT_INSIDE=yes FRESH_ROOT_WORK=$work \
        unshare --mount --pid --fork --kill-child --propagation private \
        sh "$source_dir/tests/fresh_root.sh" "$@" || status=$?
    if [ "${1:-}" = --keep ]; then
        echo "kept: $work"
    else
        rm -rf --one-file-system "$work"
    fi
    exit "$status"
fi

work=$FRESH_ROOT_WORK
root=$work/root

make_root() {
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(LABEL)' \
        'Created-By: Packages' | sed -n 's/^\([^ ]*\) bookworm Debian$/\1/p' | head -1)
    [ -n "$mirror" ] || skip "apt knows no mirror of Debian 12 here"
    debootstrap --variant=minbase bookworm "$root" "$mirror" >"$work/debootstrap.log" 2>&1 ||
        { tail -5 "$work/debootstrap.log"; exit 1; }
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    mount --rbind /dev "$root/dev" # with the terminals of /dev/pts
    mount -t proc proc "$root/proc"
    # A machine behind a proxy of its own has its certificate in this bundle.
    if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
        cp /etc/ssl/certs/ca-certificates.crt "$root/etc/trusted-here.crt"
    fi
    for file in /etc/apt/apt.conf.d/*; do
        if grep -q '^Acquire::\(Check\|http\|https\)' "$file"; then
            cp "$file" "$root/etc/apt/apt.conf.d/"
        fi
    done
}

clone() {
    git clone --quiet --no-hardlinks "$source_dir" "$root/root/magnetd"
    git -C "$root/root/magnetd" log -1 --format='testing %h %s'
}

# The nth line of README.md that begins with "sh ": the two commands come first.
readme_command() {
    sed -n 's/^\(sh .*\)/\1/p' "$source_dir/README.md" | sed -n "$1p"
}

# Runs a command in the clone with an environment like a new login's.
inside() {
    chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM=dumb \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} PIP_CERT=/etc/trusted-here.crt \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        timeout "$command_seconds_max" /bin/sh -c "cd /root/magnetd && exec $1"
}

first_command() {
    command=$(readme_command 1)
    echo "==== $command"
    inside "$command" >"$work/first.log" 2>&1 &
    pid=$!
    while kill -0 "$pid" 2>/dev/null && ! grep -q 'Ctrl-C stops it' "$work/first.log"; do
        sleep 1
    done
    tail -n 25 "$work/first.log" | cut -c 1-300
    for path in embed infill generate classify; do
        grep -q "^\\\$ curl .*/$path " "$work/first.log" ||
            { echo "no answer of /$path"; kill "$pid" 2>/dev/null; return 1; }
    done
    # timeout hands the signal on, as a terminal would.
    kill -TERM "$pid" 2>/dev/null || { echo "the server did not stay"; return 1; }
    status=0
    wait "$pid" || status=$?
    # 124 is timeout's own way to say that the command ended by the signal it passed on.
    [ "$status" = 0 ] || [ "$status" = 143 ] || { echo "ended with $status"; return 1; }
}

second_command() {
    command=$(readme_command 2)
    echo "==== $command"
    inside "$command" >"$work/second.log" 2>&1 || { tail -n 60 "$work/second.log"; return 1; }
    tail -n 12 "$work/second.log"
}

make_root
clone
first_command
second_command
echo "both commands work"
