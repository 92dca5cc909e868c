#!/usr/bin/env bash
#SBATCH --gpus-per-node=2 --cpus-per-task=8 --time=48:00:00 --requeue --open-mode=append
# Run again, it goes on. Seeds, tables, clusters: fairseq-hybrid reproduce evidence/tiny transformer_mma
# Evidence: beside a published result, Transformer-Tiny's recipe on Multi30k, English to German: Transformer MMA.
#   Reported: no score
# Made by: fairseq-hybrid show evidence/tiny/transformer_mma --column positions --script
set -euo pipefail
SEED=${SEED:-1} DATA=${DATA:-data} DEVICE=${DEVICE:---fp16} # DEVICE=--cpu: without a GPU
CORPUS=$DATA/multi30k.en-de SAVE=checkpoints/evidence.tiny.transformer_mma.positions.seed$SEED
GPUS=${GPUS:-${SLURM_GPUS_ON_NODE:-1}}; ((2 % GPUS == 0)) || { echo "GPUS=$GPUS: use a divisor of 2" >&2; exit 1; }
PLUGIN=$(python -c 'import fairseq_hybrid_attn as plugin; print(plugin.__path__[0])')
[[ -e $CORPUS/manifest.json ]] || fairseq-hybrid prepare multi30k.en-de --output "$CORPUS" --downloads "$DATA"
[[ -e $SAVE/model.pt ]] || fairseq-train "$CORPUS/bin" --user-dir "$PLUGIN" --task translation_resumable \
    --optimizer adam --adam-betas '(0.9, 0.98)' --lr-scheduler inverse_sqrt --warmup-updates 2000 --lr 5e-3 \
    --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 --encoder-layers 4 --encoder-embed-dim 128 \
    --encoder-ffn-embed-dim 256 --encoder-attention-heads 4 --decoder-layers 4 --decoder-embed-dim 128 \
    --decoder-ffn-embed-dim 256 --decoder-attention-heads 4 --share-all-embeddings --dropout 0.3 --warmup-init-lr 1e-7 \
    --clip-norm 25.0 --max-update 8000 --patience 10 --arch transformer_mma \
    --head-patterns global,local,forward,backward --max-tokens 4096 --update-freq "$((2 / GPUS))" --seed "$SEED" \
    --save-interval 1 --keep-last-epochs 10 --save-dir "$SAVE/checkpoints" --distributed-world-size "$GPUS" \
    --load-checkpoint-on-all-dp-ranks "$DEVICE" "$@"
[[ -e $SAVE/model.pt ]] || fairseq-hybrid average --output "$SAVE/model.pt" --last-epochs 10 "$SAVE/checkpoints"
[[ -e $SAVE/gen ]] || { fairseq-generate "$CORPUS/bin" --user-dir "$PLUGIN" --path "$SAVE/model.pt" --beam 5 \
    --lenpen 1 --max-tokens 12000 --required-batch-size-multiple 1 >"$SAVE/tmp"; mv "$SAVE/tmp" "$SAVE/gen"; }
fairseq-hybrid score --generated "$SAVE/gen" --reference "$CORPUS/raw/test.de" --target-lang de --subwords subword-nmt \
    --tokenizer given --scores bleu,given_bleu --test-sets "$CORPUS/raw/tests.json" --lowercase \
    --hypotheses-out "$SAVE/test.txt"
