#!/usr/bin/env bash
# Ma & Zhao 2020, Research on the fundamental principle of the attention module in sequence-to-sequence model
# Attention and alignment Table 4: supervised attention, En-Zh: Transformer (supervised). Reported: AER 21.5 (aer), BLEU
#   (MT02, words) 23.52 (word_bleu), BLEU (THU, words) 25.67 (word_bleu.thu).
# Made by: fairseq-hybrid show alignment/table4/transformer_supervised --script.
set -euo pipefail
GPUS=${GPUS:-1} SEED=${SEED:-1} FP16=${FP16:-1} CPU=${CPU:-0} # CPU=1: without a GPU; flags go to fairseq-train
DATA=${DATA:-data} DOWNLOADS=${DOWNLOADS:-$DATA/downloads} CORPUS=${CORPUS:-$DATA/ldc.en-zh}
SAVE=${SAVE:-models/alignment.table4.transformer_supervised.nist02.seed$SEED} # run again, it goes on there
TOKENS=32768 AT_ONCE=4096 # of an update; at most at once on a GPU

stop() { printf '%s\n' "$*" >&2 && exit 1; }
trap 'kill $(jobs -p) 2>/dev/null || :; wait; stop "Stopped; run again, it goes on."' INT TERM
command -v fairseq-hybrid >/dev/null || stop "activate the environment that has fairseq_hybrid_attn (docs/install.md)"
[[ "$GPUS $FP16 $CPU" =~ ^[1-9][0-9]{0,3}(\ [01]){2}$ ]] || stop "GPUS=$GPUS: use a number; FP16=$FP16 CPU=$CPU: 0 or 1"
((GPUS == 1 || CPU == 0)) || stop "GPUS=$GPUS CPU=1: on the CPU it is one process; leave GPUS out"
((CPU)) || python -c "import torch; exit(torch.cuda.device_count() < $GPUS)" || stop "GPUS=$GPUS: too many; use CPU=1"
PLUGIN=$(python -c 'import fairseq_hybrid_attn as plugin; print(plugin.__path__[0])')
FREQ=$(((TOKENS + GPUS * AT_ONCE - 1) / (GPUS * AT_ONCE))) # an update has GPUS x FREQ x MAX_TOKENS
MAX_TOKENS=$((TOKENS / (GPUS * FREQ)))
launch=() device=() half=--fp16 newest=""
((GPUS == 1)) || launch=(torchrun --standalone --nproc-per-node "$GPUS" --no-python)
((CPU == 0)) || export CUDA_VISIBLE_DEVICES="" half=--cpu-bf16
((FP16 == 0)) || device=("$half")
mkdir -p "$SAVE/checkpoints"
exec 9>"$SAVE/lock"; flock --nonblock 9 || stop "$SAVE: a script is at work there"
[[ -e $CORPUS/aligned ]] || fairseq-hybrid prepare ldc.en-zh --output "$CORPUS" --downloads "$DOWNLOADS" --alignments
set -- "${launch[@]}" fairseq-train "$CORPUS/aligned" --user-dir "$PLUGIN" --task translation_resumable \
    --source-lang en --target-lang zh --optimizer adam --adam-betas '(0.9, 0.998)' --adam-eps 1e-09 \
    --lr-scheduler inverse_sqrt --warmup-updates 8000 --lr 0.000988212 \
    --criterion label_smoothed_cross_entropy_with_supervised_attention --label-smoothing 0.1 --arch transformer \
    --dropout 0.1 --max-update 50000 --load-alignments --max-tokens "$MAX_TOKENS" --update-freq "$FREQ" --seed "$SEED" \
    --save-interval-updates 1000 --keep-interval-updates 1 --no-epoch-checkpoints --save-interval 1000000 \
    --validate-interval 1000000 --save-dir "$SAVE/checkpoints" --distributed-world-size "$GPUS" \
    --load-checkpoint-on-all-dp-ranks "${device[@]}" "$@"
[[ -e $SAVE/trained || -n $(ls "$SAVE/checkpoints") ]] || echo "$*" >"$SAVE/begun"
[[ $(<"$SAVE/begun") == "$*" ]] || stop "SAVE=$SAVE was begun otherwise; use another SAVE, or remove it"
if [[ ! -e $SAVE/trained ]]; then
    for file in "$SAVE"/checkpoints/checkpoint*.pt; do # copy the newest again, if a kill cut off a copy of it
        python -m zipfile -l "$file" >/dev/null 2>&1 || [[ ! -e $file ]] || cp "$newest" "$file"
        [[ $file -ot $newest ]] || newest=$file
    done
    "$@" & wait "$!"
    touch "$SAVE/trained"
fi
[[ -e $SAVE/model.pt ]] || fairseq-hybrid average --output "$SAVE/model.pt" "$SAVE/checkpoints/checkpoint_best.pt"
[[ -e $SAVE/translation ]] || fairseq-generate "$CORPUS/bin" --user-dir "$PLUGIN" --source-lang en --target-lang zh \
    --path "$SAVE/model.pt" --gen-subset test --beam 5 --unnormalized --max-tokens "$((CPU ? 4000 : 12000))" \
    --required-batch-size-multiple 1 --results-path "$SAVE/translation.part"
[[ -e $SAVE/translation ]] || mv "$SAVE/translation.part" "$SAVE/translation"
[[ -e $SAVE/alignment.json ]] || fairseq-hybrid align "$SAVE/model.pt" --data "$CORPUS" \
    --source "$CORPUS/gold/subwords.en" --target "$CORPUS/gold/subwords.zh" --layer last --head last \
    --gold "$CORPUS/gold/links" --gold-base 0 --output "$SAVE/gold.align" --json "$SAVE/alignment.json" \
    --max-tokens "$((CPU ? 4000 : 12000))"
fairseq-hybrid score --generated "$SAVE/translation/generate-test.txt" --reference "$CORPUS/raw/test.zh" \
    --target-lang zh --subwords subword-nmt --tokenizer jieba --scores bleu,word_bleu,chrf \
    --test-sets "$CORPUS/raw/tests.json" --json "$SAVE/score.json" --hypotheses-out "$SAVE/hypotheses.txt"
