#!/bin/sh
# Goal: layout is decided by clang-format and by nobody else.
# Method: a dry run over every C file. Versions differ in taste, so only the one of Debian 12 counts.
set -eu
cd "$1"
version=$(clang-format --version 2>/dev/null | sed -n 's/.*version \([0-9]*\)\..*/\1/p')
if [ "$version" != 14 ]; then
    echo "skipped: clang-format 14 is not here"
    exit 77
fi
find engine api server tests -name '*.[ch]' -print0 | xargs -0 clang-format --dry-run -Werror
