#!/usr/bin/env bash
#SBATCH --gpus-per-node=1 --cpus-per-task=4 --time=48:00:00 --requeue --open-mode=append
# Run again, it goes on. Seeds, tables, clusters: fairseq-hybrid reproduce mma/table2 transformer_mma
# MMA Table 2: IWSLT14 De-En: Transformer MMA. Reported: De-En 35.41
# Made by: fairseq-hybrid show mma/table2/transformer_mma --script
set -euo pipefail
SEED=${SEED:-1} DATA=${DATA:-data} DEVICE=${DEVICE:---fp16} # DEVICE=--cpu: without a GPU
CORPUS=$DATA/iwslt14.de-en.mma SAVE=checkpoints/mma.table2.transformer_mma.de-en.seed$SEED
PLUGIN=$(python -c 'import fairseq_hybrid_attn as plugin; print(plugin.__path__[0])')
[[ -e $CORPUS/manifest.json ]] || fairseq-hybrid prepare iwslt14.de-en.mma --output "$CORPUS" --downloads "$DATA"
# Not in the paper (docs/papers/mma.md): --adam-betas --adam-eps --share-decoder-input-output-embed --weight-decay
#   --save-interval-updates --lenpen and which checkpoint
[[ -e $SAVE/model.pt ]] || fairseq-train "$CORPUS/bin" --user-dir "$PLUGIN" --task translation_resumable \
    --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-09 --lr-scheduler inverse_sqrt --warmup-updates 4000 \
    --lr 0.000698771 --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 --arch transformer_mma_iwslt \
    --dropout 0.3 --max-epoch 45 --share-decoder-input-output-embed --weight-decay 0.0001 \
    --head-patterns global,local,forward,backward --max-tokens 4096 --update-freq 1 --seed "$SEED" \
    --save-interval-updates 1000 --keep-interval-updates 1 --no-epoch-checkpoints --save-interval 45 \
    --validate-interval 45 --save-dir "$SAVE/checkpoints" --distributed-world-size 1 "$DEVICE" "$@"
[[ -e $SAVE/model.pt ]] || fairseq-hybrid average --output "$SAVE/model.pt" "$SAVE/checkpoints/checkpoint_best.pt"
[[ -e $SAVE/gen ]] || { fairseq-generate "$CORPUS/bin" --user-dir "$PLUGIN" --path "$SAVE/model.pt" --beam 5 \
    --lenpen 1 --max-tokens 12000 --required-batch-size-multiple 1 >"$SAVE/tmp"; mv "$SAVE/tmp" "$SAVE/gen"; }
fairseq-hybrid score --generated "$SAVE/gen" --reference "$CORPUS/raw/test.en" --target-lang en --subwords subword-nmt \
    --tokenizer moses --scores bleu,tokenised_bleu --lowercase --hypotheses-out "$SAVE/test.txt"
