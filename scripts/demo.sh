#!/usr/bin/env bash
# See usage() below, or: scripts/demo.sh --help
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
    cat <<'HELP'
scripts/demo.sh: German to English, from nothing to BLEU, in some ten minutes on two cores.

It makes a virtual environment in .venv, downloads a few wheels with German message
catalogues (75 MB, pinned by hash), makes clean text of them, learns subwords, trains a
small model, averages its last checkpoints, translates 1,000 held-out strings and scores
them. All else lies in one folder. Stopped, it goes on where it was when run again; a
finished run shows its result again.

Environment variables:
  ARCH         architecture (transformer_mma); any of this package's or a transformer of fairseq's, e.g.
               transformer, transformer_hysan, transformer_hybrid_gate
  DEMO_DIR     where everything goes (demo/ in the checkout); text and subwords are shared
               by all architectures, models are in models/ there
  MAX_UPDATES  training updates (DEFAULT_UPDATES), over which the learning rate falls to zero
  MINUTES      stop the training after so many minutes, if it is not at its end by then
  SEED         random seed of the training (1)
  THREADS      threads of the training (2)
  PYTHON       Python 3.11 or 3.12 to make the virtual environment with

pip's own variables work as well. On Linux the package index gives torch with CUDA, several
gigabytes; on a machine without a GPU, take PyTorch's CPU build:
  PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu scripts/demo.sh
HELP
}

DEFAULT_UPDATES=1500
SUBWORDS=4000
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    usage | sed "s/DEFAULT_UPDATES/$DEFAULT_UPDATES/"
    exit 0
fi

if (($# > 0)); then
    echo "$*: this takes no arguments; settings are environment variables, see --help" >&2
    exit 1
fi

ARCH=${ARCH:-transformer_mma}
DEMO_DIR=${DEMO_DIR:-$ROOT/demo}
MAX_UPDATES=${MAX_UPDATES:-$DEFAULT_UPDATES}
MINUTES=${MINUTES:-}
SEED=${SEED:-1}
THREADS=${THREADS:-2}

[[ $DEMO_DIR == /* ]] || DEMO_DIR=$PWD/$DEMO_DIR
LOGS=$DEMO_DIR/logs
USER_DIR=$ROOT/fairseq_hybrid_attn
WHEELS=$DEMO_DIR/wheels
DATA=$DEMO_DIR/data
# Runs that differ in more than the defaults do not share a folder.
NAME=$ARCH
[[ $SEED == 1 ]] || NAME+=-seed$SEED
[[ $MAX_UPDATES == "$DEFAULT_UPDATES" ]] || NAME+=-updates$MAX_UPDATES
[[ -z $MINUTES ]] || NAME+=-minutes$MINUTES
MODEL=$DEMO_DIR/models/$NAME
# shellcheck source=scripts/lib/common.sh
source "$ROOT/scripts/lib/common.sh"

main() {
    check_settings
    mkdir -p "$LOGS"
    trap 'printf "\nStopped. Run the same again to go on from here.\n" >&2; exit 130' INT TERM
    lock

    begin "1/7 Virtual environment"
    make_environment
    finish
    export PATH=$VENV/bin:$PATH
    unset PYTHONPATH PYTHONHOME
    check_architecture
    tune_for_cpu

    begin "2/7 Wheels with German catalogues"
    get_wheels
    finish

    begin "3/7 Text: read, clean, split; subwords"
    make_data
    finish

    begin "4/7 Training $NAME"
    train
    finish

    begin "5/7 Averaging the last checkpoints"
    average
    finish

    begin "6/7 Translating the test set"
    translate
    finish

    begin "7/7 Scoring"
    score
    finish
    report
}

check_settings() {
    local name
    for name in MAX_UPDATES SEED THREADS; do
        [[ ${!name} =~ ^[1-9][0-9]{0,8}$ ]] || die "$name=${!name}: use a whole number above 0"
    done
    [[ -z $MINUTES || $MINUTES =~ ^[0-9]{1,6}(\.[0-9]+)?$ ]] || die "MINUTES=$MINUTES: use a number"
    [[ $ARCH =~ ^[A-Za-z0-9_]+$ ]] || die "ARCH=$ARCH: use the name of an architecture"
}

# One run at a time in a folder. The programs it starts inherit the lock, so a training that
# outlived its killed script is waited for rather than disturbed.
lock() {
    command -v flock >/dev/null || return 0 # not on macOS; then it is up to the user
    exec 9>"$DEMO_DIR/.lock"
    if ! flock --nonblock 9; then
        echo "Another run is at work in $DEMO_DIR; waiting for its end (Ctrl-C gives up) …"
        flock 9
    fi
}

check_architecture() {
    local known
    if ! known=$(python - "$USER_DIR" "$ARCH" 2>"$LOGS/architecture.log" <<'PYTHON'
import sys
from argparse import Namespace

from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.utils import import_user_module

import_user_module(Namespace(user_dir=sys.argv[1]))
if sys.argv[2] not in ARCH_MODEL_REGISTRY:
    ours = (a for a, m in ARCH_MODEL_REGISTRY.items() if m.__module__.startswith("fairseq_hybrid"))
    print(*sorted(ours), "transformer", sep="\n  ")
PYTHON
    ); then
        show_failure "$LOGS/architecture.log"
    fi
    [[ -z $known ]] || die "ARCH=$ARCH: there is no such architecture. For example:" "  $known"
}

# Threads that soon sleep when they wait: as they come, they do so busily, and with another
# program at work on the machine a training on two threads takes ten times as long. And memory
# that stays with the process between updates: handing it back costs up to a third of the time.
# (GNU's OpenMP and C library read these; others ignore them.)
tune_for_cpu() {
    export OMP_NUM_THREADS=$THREADS GOMP_SPINCOUNT=1000
    export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=4000000000 MALLOC_TOP_PAD_=100000000
}

get_wheels() {
    if python "$ROOT/scripts/demo/wheels.py" --requirements "$ROOT/requirements-demo.txt" \
        --folder "$WHEELS"; then
        echo "   all in $WHEELS"
        return
    fi
    rm -rf "$WHEELS.partial"
    echo "   downloading 75 MB"
    logged download python -m pip download --disable-pip-version-check --no-input \
        --retries 2 --timeout 20 --no-deps --require-hashes --only-binary :all: \
        --requirement "$ROOT/requirements-demo.txt" --dest "$WHEELS.partial"
    rm -rf "$WHEELS"
    mv "$WHEELS.partial" "$WHEELS"
}

make_data() {
    local wanted
    wanted=$(
        cd "$ROOT"
        echo "$SUBWORDS"
        cksum requirements-demo.txt constraints.txt \
            scripts/demo/{catalogues,cleaning,splitting,make_corpus,subwords}.py
    )
    if [[ -f $DATA/stamp && $(<"$DATA/stamp") == "$wanted" ]]; then
        echo "   already in $DATA"
    else
        rm -rf "$DATA.partial"
        mkdir -p "$DATA.partial/text" "$DATA.partial/subwords"
        logged corpus python "$ROOT/scripts/demo/make_corpus.py" \
            --wheels "$WHEELS" --output "$DATA.partial/text"
        cp "$LOGS/corpus.log" "$DATA.partial/counts.txt"
        logged subwords python "$ROOT/scripts/demo/subwords.py" \
            --text "$DATA.partial/text" --output "$DATA.partial/subwords" --size "$SUBWORDS"
        logged preprocess fairseq-preprocess --source-lang de --target-lang en \
            --joined-dictionary --trainpref "$DATA.partial/subwords/train" \
            --validpref "$DATA.partial/subwords/valid" --testpref "$DATA.partial/subwords/test" \
            --destdir "$DATA.partial/bin"
        echo "$wanted" >"$DATA.partial/stamp"
        rm -rf "$DATA"
        mv "$DATA.partial" "$DATA"
    fi
    sed 's/^/   /' "$DATA/counts.txt"
}

train() {
    local interval=$((MAX_UPDATES > 25 ? MAX_UPDATES / 25 : 1)) status=0
    local command=(
        fairseq-train "$DATA/bin" --source-lang de --target-lang en --cpu --num-workers 0
        --user-dir "$USER_DIR" --arch "$ARCH"
        --encoder-layers 2 --encoder-embed-dim 128 --encoder-ffn-embed-dim 512
        --encoder-attention-heads 4
        --decoder-layers 2 --decoder-embed-dim 128 --decoder-ffn-embed-dim 512
        --decoder-attention-heads 4 --share-all-embeddings --dropout 0.2
        --criterion label_smoothed_cross_entropy --label-smoothing 0.1
        --optimizer adam --adam-betas "(0.9, 0.98)" --lr 4e-3 --max-tokens 2048
        # In so few updates, this schedule gave 4 BLEU more than inverse_sqrt.
        --lr-scheduler polynomial_decay --total-num-update "$MAX_UPDATES"
        --warmup-updates $((MAX_UPDATES / 5)) --max-update "$MAX_UPDATES" --seed "$SEED"
        --save-dir "$MODEL" --save-interval-updates "$interval" --keep-interval-updates 5
        --save-interval 1000000 --validate-interval 1000000 --no-epoch-checkpoints
        --log-format json --log-interval 25
    )
    if [[ -n $MINUTES ]]; then
        command+=(--stop-time-hours "$(python -c "print(float('$MINUTES') / 60)")")
    fi
    mkdir -p "$MODEL"
    same_settings "${command[*]}"
    if [[ -f $MODEL/trained ]]; then
        echo "   already in $MODEL"
        return
    fi
    repair_checkpoints
    # No "logged": the progress is shown, all the rest is in the log.
    "${command[@]}" 2>&1 | python "$ROOT/scripts/demo/progress.py" \
        --log "$LOGS/train-$NAME.log" --updates "$MAX_UPDATES" || status=$?
    [[ $status == 0 ]] || show_failure "$LOGS/train-$NAME.log"
    touch "$MODEL/trained"
}

# same_settings COMMAND: refuse to go on with a model begun with other settings or text.
same_settings() {
    local settings
    settings=$(printf '%s\n' "$1" && cat "$DATA/stamp")
    if [[ ! -f $MODEL/settings ]]; then
        printf '%s\n' "$settings" >"$MODEL/settings.new"
        mv "$MODEL/settings.new" "$MODEL/settings"
    elif [[ $(<"$MODEL/settings") != "$settings" ]]; then
        die "$MODEL was begun with other settings or other text (see its file settings)." \
            "Delete that folder, or set DEMO_DIR to another one, then run this again."
    fi
}

# fairseq copies checkpoint_last.pt from a numbered checkpoint; killed meanwhile, it leaves half
# a file. Remove what is broken, and go on from the newest whole one.
repair_checkpoints() {
    local file last=$MODEL/checkpoint_last.pt newest
    rm -f "$MODEL"/*.tmp
    for file in "$MODEL"/*.pt; do
        if [[ -e $file ]] && ! python -m zipfile --test "$file" >/dev/null 2>&1; then
            echo "   $file was cut off; removing it"
            rm "$file"
        fi
    done
    newest=$(numbered_checkpoints | tail -n 1)
    if [[ ! -e $last && -n $newest ]]; then
        cp "$newest" "$last.new"
        mv "$last.new" "$last"
    fi
}

# The checkpoint_EPOCH_UPDATES.pt, the one with most updates last.
numbered_checkpoints() {
    find "$MODEL" -name 'checkpoint_*_*.pt' | sed 's/.*_\([0-9]*\)\.pt$/\1 &/' | sort -n |
        cut -d ' ' -f 2-
}

average() {
    local count
    if [[ -f $MODEL/averaged.pt ]]; then
        echo "   already in $MODEL/averaged.pt"
        return
    fi
    count=$(numbered_checkpoints | wc -l)
    if ((count > 0)); then
        ((count <= 5)) || count=5
        logged average python -m fairseq_hybrid_attn average --last-updates "$count" \
            --output "$MODEL/averaged.pt" "$MODEL"
    else # stopped by MINUTES before the first of them
        logged average python -m fairseq_hybrid_attn average \
            --output "$MODEL/averaged.pt" "$MODEL/checkpoint_last.pt"
    fi
}

translate() {
    if [[ -d $MODEL/translation ]]; then
        echo "   already in $MODEL/translation"
        return
    fi
    rm -rf "$MODEL/translation.partial"
    logged translate fairseq-generate "$DATA/bin" --source-lang de --target-lang en --cpu \
        --user-dir "$USER_DIR" --path "$MODEL/averaged.pt" --gen-subset test --beam 5 --lenpen 1.5 \
        --max-tokens 4000 --required-batch-size-multiple 1 --max-len-a 2 --max-len-b 10 \
        --results-path "$MODEL/translation.partial"
    mv "$MODEL/translation.partial" "$MODEL/translation"
}

score() {
    logged score python -m fairseq_hybrid_attn score \
        --generated "$MODEL/translation/generate-test.txt" --reference "$DATA/text/test.en" \
        --subwords sentencepiece --tokenizer none --target-lang en \
        --json "$MODEL/score.json" --hypotheses-out "$MODEL/translation/test.en"
}

report() {
    local directory
    printf '\n'
    python "$ROOT/scripts/demo/report.py" --score "$MODEL/score.json" \
        --source "$DATA/text/test.de" --translation "$MODEL/translation/test.en" \
        --reference "$DATA/text/test.en"
    directory=$(printf '%q' "$VENV/bin")
    cat <<END

Text          $DATA/text  ({train,valid,test}.{de,en})
Subwords      $DATA/subwords
Model         $MODEL/averaged.pt
Translations  $MODEL/translation/test.en
Logs          $LOGS

Total time of this run: $((SECONDS / 60)) min $((SECONDS % 60)) s

Another architecture on the same text:
  ARCH=transformer_hysan $(printf '%q' "$ROOT/scripts/demo.sh")
Your own sentences (a line each, ended by Ctrl-D):
  OMP_NUM_THREADS=1 $directory/fairseq-interactive $(printf '%q' "$DATA/bin") \\
    --source-lang de --target-lang en --cpu \\
    --user-dir $(printf '%q' "$USER_DIR") --path $(printf '%q' "$MODEL/averaged.pt") \\
    --bpe sentencepiece --sentencepiece-model $(printf '%q' "$DATA/subwords/subwords.model") \\
    --beam 5 --lenpen 1.5 2>/dev/null | grep --line-buffered ^D- | cut -f 3
END
}

main "$@"
