#!/usr/bin/env bash
# See usage() below, or: scripts/prepare/own.sh --help
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
    cat <<'HELP'
scripts/prepare/own.sh: your own parallel text, ready for fairseq-train.

  scripts/prepare/own.sh FOLDER [options]
  scripts/prepare/own.sh FILE FILE [options]

FOLDER has train, valid and test in two languages (train.de, train.en, ...), or one pair of files
that differ only in their languages (x.de, x.en), which is then split. Two FILEs are such a pair.
Files are UTF-8, one sentence per line, and may be .gz. The result goes to own/NAME in DATA, where
NAME is that of the folder or of the first file, without its language; --output DIR selects another
folder.

The environment variable RECIPE names the recipe to apply: a name in configs/corpora, such as
iwslt14.de-en.mma, or a .yaml file. The default is cased, Moses words, 10,000 joint merges.
HELP
}

# shellcheck source=scripts/lib/prepare.sh
source "$ROOT/scripts/lib/prepare.sh"
help_if_asked "$@"
own=()
while (($# > 0)) && [[ $1 != -* ]]; do
    own+=("$1")
    shift
done
((${#own[@]} == 1 || ${#own[@]} == 2)) || die "name a folder or two files; see $0 --help"
for path in "${own[@]}"; do
    [[ -e $path ]] || die "$path does not exist"
done
if [[ -d ${own[0]} ]]; then
    name=$(basename "$(cd "${own[0]}" && pwd)") # of "." and ".." too
else
    name=$(basename "${own[0]}" .gz)
    name=${name%.*}
fi
prepare "${RECIPE:-own}" "own/$name" --own "${own[@]}" "$@"
