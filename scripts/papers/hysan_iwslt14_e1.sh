#!/usr/bin/env bash
#SBATCH --gpus-per-node=1 --cpus-per-task=4 --time=48:00:00 --requeue --open-mode=append
# Run again, it goes on. Seeds, tables, clusters: fairseq-hybrid reproduce hysan/table1 e1
# HySAN Table 1: branches of encoder | decoder, IWSLT14 De-En, small model: global, fw, bw, l5 | fw, l5. Reported: BLEU
#   32.28, with POSITIONS=0: BLEU without positions 30.69
# Made by: fairseq-hybrid show hysan/table1/e1 --column bleu --script
set -euo pipefail
SEED=${SEED:-1} DATA=${DATA:-data} POSITIONS=${POSITIONS:-1} DEVICE=${DEVICE:---fp16} # DEVICE=--cpu: without a GPU
CORPUS=$DATA/iwslt14.de-en.hysan SAVE=checkpoints/hysan.table1.e1.bleu.seed$SEED
positions=(); ((POSITIONS)) || { positions=(--no-encoder-positions --no-decoder-positions); SAVE+=.no_positions; }
PLUGIN=$(python -c 'import fairseq_hybrid_attn as plugin; print(plugin.__path__[0])')
[[ -e $CORPUS/manifest.json ]] || fairseq-hybrid prepare iwslt14.de-en.hysan --output "$CORPUS" --downloads "$DATA"
# Not in the paper (docs/papers/hysan.md): --warmup-updates --lr --label-smoothing --share-all-embeddings
#   --encoder-branches --decoder-branches --dropout --max-tokens --update-freq --save-interval-updates --gnmt-lenpen
[[ -e $SAVE/model.pt ]] || fairseq-train "$CORPUS/bin" --user-dir "$PLUGIN" --task translation_resumable \
    --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-09 --lr-scheduler inverse_sqrt --warmup-updates 4000 \
    --lr 0.000988212 --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 --share-all-embeddings \
    --encoder-branches global,fw,bw,l5 --decoder-branches fw,l5 --branch-fusion gated-sum --dropout 0.1 \
    --max-update 100000 --arch transformer_hysan_small --max-tokens 4096 --update-freq 1 --seed "$SEED" \
    --save-interval-updates 1000 --keep-interval-updates 5 --no-epoch-checkpoints --save-interval 1000000 \
    --validate-interval 1000000 --save-dir "$SAVE/checkpoints" --distributed-world-size 1 "$DEVICE" "${positions[@]}" \
    "$@"
[[ -e $SAVE/model.pt ]] || fairseq-hybrid average --output "$SAVE/model.pt" --last-updates 5 "$SAVE/checkpoints"
[[ -e $SAVE/gen ]] || { fairseq-generate "$CORPUS/bin" --user-dir "$PLUGIN" --path "$SAVE/model.pt" \
    --task translation_gnmt --beam 4 --gnmt-lenpen 0.6 --max-len-a 1 --max-len-b 49 --max-tokens 12000 \
    --required-batch-size-multiple 1 >"$SAVE/tmp"; mv "$SAVE/tmp" "$SAVE/gen"; }
fairseq-hybrid score --generated "$SAVE/gen" --reference "$CORPUS/raw/test.en" --target-lang en \
    --subwords sentencepiece --tokenizer moses-2018 --scores bleu,tokenised_bleu --hypotheses-out "$SAVE/test.txt"
