#!/usr/bin/env bash
# Song et al. 2018, Hybrid Self-Attention Network for Machine Translation (small models: 1 GPU, others: 8)
# HySAN Table 4: WMT17 Zh-En: HySAN (big). Reported: BLEU 25.27 (bleu).
# Made by: fairseq-hybrid show hysan/table4/hysan_big --script.
set -euo pipefail
GPUS=${GPUS:-1} SEED=${SEED:-1} FP16=${FP16:-1} CPU=${CPU:-0} # CPU=1: without a GPU; flags go to fairseq-train
DATA=${DATA:-data} DOWNLOADS=${DOWNLOADS:-$DATA/downloads} CORPUS=${CORPUS:-$DATA/wmt17.zh-en}
SAVE=${SAVE:-models/hysan.table4.hysan_big.bleu.seed$SEED} # run again, it goes on there
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
((CPU == 0)) || export CUDA_VISIBLE_DEVICES="" half=--autocast-bf16
((FP16 == 0)) || device=("$half")
mkdir -p "$SAVE/checkpoints"
exec 9>"$SAVE/lock"; flock --nonblock 9 || stop "$SAVE: a script is at work there"
[[ -e $CORPUS/manifest.json ]] || fairseq-hybrid prepare wmt17.zh-en --output "$CORPUS" --downloads "$DOWNLOADS"
set -- "${launch[@]}" fairseq-train "$CORPUS/bin" --user-dir "$PLUGIN" --task translation_resumable --source-lang zh \
    --target-lang en --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-09 --lr-scheduler inverse_sqrt \
    --warmup-updates 4000 --lr 0.000494106 --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 \
    --encoder-branches global,fw,bw,l5 --decoder-branches fw,l5 --branch-fusion gated-sum --dropout 0.3 \
    --max-update 300000 --arch transformer_hysan_big --share-decoder-input-output-embed --max-tokens "$MAX_TOKENS" \
    --update-freq "$FREQ" --seed "$SEED" --save-interval-updates 1000 --keep-interval-updates 20 \
    --no-epoch-checkpoints --save-interval 1000000 --validate-interval 1000000 --save-dir "$SAVE/checkpoints" \
    --distributed-world-size "$GPUS" --load-checkpoint-on-all-dp-ranks "${device[@]}" "$@"
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
[[ -e $SAVE/model.pt ]] || fairseq-hybrid average --output "$SAVE/model.pt" --last-updates 20 "$SAVE/checkpoints"
[[ -e $SAVE/translation ]] || fairseq-generate "$CORPUS/bin" --user-dir "$PLUGIN" --source-lang zh --target-lang en \
    --path "$SAVE/model.pt" --gen-subset test --task translation_gnmt --beam 4 --gnmt-lenpen 0.6 --max-len-a 1 \
    --max-len-b 49 --max-tokens "$((CPU ? 4000 : 12000))" --required-batch-size-multiple 1 \
    --results-path "$SAVE/translation.part"
[[ -e $SAVE/translation ]] || mv "$SAVE/translation.part" "$SAVE/translation"
fairseq-hybrid score --generated "$SAVE/translation/generate-test.txt" --reference "$CORPUS/raw/test.en" \
    --target-lang en --subwords sentencepiece --tokenizer moses-2018 --scores bleu,tokenised_bleu,chrf,ter \
    --json "$SAVE/score.json" --hypotheses-out "$SAVE/hypotheses.txt"
