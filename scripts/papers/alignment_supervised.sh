#!/usr/bin/env bash
#SBATCH --gpus-per-node=8 --cpus-per-task=32 --time=48:00:00 --requeue --open-mode=append
# Run again, it goes on. Seeds, tables, clusters: fairseq-hybrid reproduce alignment/table4 transformer_supervised
# Attention and alignment Table 4: supervised attention, En-Zh: Transformer (supervised). Reported: AER 21.5, BLEU
#   (MT02, words) 23.52, BLEU (THU, words) 25.67
# Made by: fairseq-hybrid show alignment/table4/transformer_supervised --script
set -euo pipefail
SEED=${SEED:-1} DATA=${DATA:-data} DEVICE=${DEVICE:---fp16} # DEVICE=--cpu: without a GPU
CORPUS=$DATA/ldc.en-zh SAVE=checkpoints/alignment.table4.transformer_supervised.nist02.seed$SEED
GPUS=${GPUS:-${SLURM_GPUS_ON_NODE:-1}}; ((8 % GPUS == 0)) || { echo "GPUS=$GPUS: use a divisor of 8" >&2; exit 1; }
PLUGIN=$(python -c 'import fairseq_hybrid_attn as plugin; print(plugin.__path__[0])')
[[ -e $CORPUS/aligned ]] || fairseq-hybrid prepare ldc.en-zh --output "$CORPUS" --downloads "$DATA" --alignments
# Not in the paper (docs/papers/alignment.md): --adam-betas --adam-eps --lr-scheduler --warmup-updates --lr
#   --label-smoothing --dropout --max-update --max-tokens --update-freq --save-interval-updates --beam --unnormalized
#   and which checkpoint
[[ -e $SAVE/model.pt ]] || fairseq-train "$CORPUS/aligned" --user-dir "$PLUGIN" --task translation_resumable \
    --optimizer adam --adam-betas '(0.9, 0.998)' --adam-eps 1e-09 --lr-scheduler inverse_sqrt --warmup-updates 8000 \
    --lr 0.000988212 --criterion label_smoothed_cross_entropy_with_supervised_attention --label-smoothing 0.1 \
    --arch transformer --dropout 0.1 --max-update 50000 --load-alignments --max-tokens 4096 \
    --update-freq "$((8 / GPUS))" --seed "$SEED" --save-interval-updates 1000 --keep-interval-updates 1 \
    --no-epoch-checkpoints --save-interval 1000000 --validate-interval 1000000 --save-dir "$SAVE/checkpoints" \
    --distributed-world-size "$GPUS" --load-checkpoint-on-all-dp-ranks "$DEVICE" "$@"
[[ -e $SAVE/model.pt ]] || fairseq-hybrid average --output "$SAVE/model.pt" "$SAVE/checkpoints/checkpoint_best.pt"
[[ -e $SAVE/gen ]] || { fairseq-generate "$CORPUS/bin" --user-dir "$PLUGIN" --path "$SAVE/model.pt" --beam 5 \
    --unnormalized --max-tokens 12000 --required-batch-size-multiple 1 >"$SAVE/tmp"; mv "$SAVE/tmp" "$SAVE/gen"; }
[[ -e $SAVE/gold.align ]] || fairseq-hybrid align "$SAVE/model.pt" --user-dir "$PLUGIN" --data "$CORPUS" \
    --source "$CORPUS/gold/subwords.en" --target "$CORPUS/gold/subwords.zh" --layer last --head last \
    --gold "$CORPUS/gold/links" --gold-base 0 --output "$SAVE/gold.align"
fairseq-hybrid score --generated "$SAVE/gen" --reference "$CORPUS/raw/test.zh" --target-lang zh --subwords subword-nmt \
    --tokenizer jieba --scores bleu,word_bleu --test-sets "$CORPUS/raw/tests.json" --hypotheses-out "$SAVE/test.txt"
