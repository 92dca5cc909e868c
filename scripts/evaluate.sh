#!/usr/bin/env bash
# See usage() below, or: scripts/evaluate.sh --help
set -euo pipefail

usage() {
    cat <<'HELP'
scripts/evaluate.sh: translate a corpus' test set with a model, and score the translation.

  scripts/evaluate.sh MODEL.pt CORPUS [fairseq-generate's flags, such as --beam 5 --lenpen 0.6]

CORPUS was made by "fairseq-hybrid prepare"; its manifest says how the text is treated and scored.
The translation goes to MODEL.generated.txt, in place of an earlier one. Both commands are printed
before they run; DRY_RUN=1 prints alone. A GPU is used if there is one. It runs in the active
environment, or in .venv of the current folder.
HELP
}

if [[ ${1:-} == -h || ${1:-} == --help || $# == 0 ]]; then
    usage
    exit 0
fi
if [[ ! -f $1 || ! -f ${2:-}/manifest.json ]]; then
    echo "$1 ${2:-}: name a model and the folder of a prepared corpus; see $0 --help" >&2
    exit 1
fi
model=$1 corpus=$2 made=${1%.pt}.generated.txt
shift 2
command -v fairseq-hybrid >/dev/null || PATH=$PWD/.venv/bin:$PATH
if ! command -v fairseq-hybrid >/dev/null; then
    echo "activate the environment that has fairseq_hybrid_attn, or make .venv; see docs/install.md" >&2
    exit 1
fi
treated=$(python -c 'if True:
    import json, sys
    from fairseq_hybrid_attn.lab.scores.metrics import standard_scores
    of = json.load(sys.stdin)
    print(of["source"], of["target"], "sentencepiece" if "piece" in of["subwords"]["kind"] else "subword-nmt")
    scores = dict.fromkeys([*of["recipe"]["scores"], *standard_scores(of["target"])])
    print(of["tokenizer"][of["target"]], ",".join(scores), "--lowercase" * of["lowercase"])
' <"$corpus/manifest.json")
read -r source target subwords tokenizer scores lowercase <<<"${treated//$'\n'/ }"
PLUGIN=$(python -c 'import fairseq_hybrid_attn as plugin; print(plugin.__path__[0])')
generate=(fairseq-generate "$corpus/bin" --user-dir "$PLUGIN" --source-lang "$source" --target-lang "$target"
    --path "$model" --max-tokens 4000 --required-batch-size-multiple 1 "$@")
score=(fairseq-hybrid score --generated "$made" --reference "$corpus/raw/test.$target" --target-lang "$target"
    --subwords "$subwords" --tokenizer "$tokenizer" --scores "$scores")
[[ -z $lowercase ]] || score+=(--lowercase)
[[ ! -e $corpus/raw/tests.json ]] || score+=(--test-sets "$corpus/raw/tests.json")
printf '%q ' "${generate[@]}" && printf '>%q\n' "$made"
if [[ -z ${DRY_RUN:-} ]]; then
    "${generate[@]}" >"$made.part"
    mv "$made.part" "$made"
fi
printf '%q ' "${score[@]}" && echo
[[ -n ${DRY_RUN:-} ]] || exec "${score[@]}"
