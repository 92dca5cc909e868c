#!/usr/bin/env bash
#SBATCH --gpus-per-node=1 --cpus-per-task=4 --time=48:00:00 --requeue --open-mode=append
# Run again, it goes on. Seeds, tables, clusters: fairseq-hybrid reproduce mma/table1 transformer_mma
# MMA Table 1: WAT17 En-Ja and Ja-En: Transformer MMA. Reported: En-Ja 34.39
# Made by: fairseq-hybrid show mma/table1/transformer_mma --column en-ja --script
set -euo pipefail
SEED=${SEED:-1} DATA=${DATA:-data} DEVICE=${DEVICE:---fp16} # DEVICE=--cpu: without a GPU
CORPUS=$DATA/wat17.en-ja.mma SAVE=checkpoints/mma.table1.transformer_mma.en-ja.seed$SEED
PLUGIN=$(python -c 'import fairseq_hybrid_attn as plugin; print(plugin.__path__[0])')
[[ -e $CORPUS/manifest.json ]] || fairseq-hybrid prepare wat17.en-ja.mma --output "$CORPUS" --downloads "$DATA"
# Not in the paper (docs/papers/mma.md): --adam-betas --adam-eps --save-interval-updates --lenpen and which checkpoint
[[ -e $SAVE/model.pt ]] || fairseq-train "$CORPUS/bin" --user-dir "$PLUGIN" --task translation_resumable \
    --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-09 --lr-scheduler inverse_sqrt --warmup-updates 4000 \
    --lr 0.000698771 --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 --arch transformer_mma_base \
    --dropout 0.1 --max-epoch 20 --head-patterns global,local,forward,backward --max-tokens 4096 --update-freq 1 \
    --seed "$SEED" --save-interval-updates 5000 --keep-interval-updates 1 --no-epoch-checkpoints --save-interval 20 \
    --validate-interval 20 --save-dir "$SAVE/checkpoints" --distributed-world-size 1 "$DEVICE" "$@"
[[ -e $SAVE/model.pt ]] || fairseq-hybrid average --output "$SAVE/model.pt" "$SAVE/checkpoints/checkpoint_best.pt"
[[ -e $SAVE/gen ]] || { fairseq-generate "$CORPUS/bin" --user-dir "$PLUGIN" --path "$SAVE/model.pt" --beam 5 \
    --lenpen 1 --max-tokens 12000 --required-batch-size-multiple 1 >"$SAVE/tmp"; mv "$SAVE/tmp" "$SAVE/gen"; }
fairseq-hybrid score --generated "$SAVE/gen" --reference "$CORPUS/raw/test.ja" --target-lang ja \
    --subwords sentencepiece --tokenizer none --scores bleu,wat_bleu --hypotheses-out "$SAVE/test.txt"
