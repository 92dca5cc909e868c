#!/usr/bin/env bash
#SBATCH --gpus-per-node=4 --cpus-per-task=16 --time=48:00:00 --requeue --open-mode=append
# Run again, it goes on. Seeds, tables, clusters: fairseq-hybrid reproduce hybrid_gate/table2 hybrid_gate
# Hybrid gate Table 2: WAT17 Ja-En: + HYBRID (Gate). Reported: BLEU 28.66
# Made by: fairseq-hybrid show hybrid_gate/table2/hybrid_gate --script
set -euo pipefail
SEED=${SEED:-1} DATA=${DATA:-data} DEVICE=${DEVICE:---fp16} # DEVICE=--cpu: without a GPU
CORPUS=$DATA/wat17.ja-en.hybrid_gate SAVE=checkpoints/hybrid_gate.table2.hybrid_gate.bleu.seed$SEED
GPUS=${GPUS:-${SLURM_GPUS_ON_NODE:-1}}; ((4 % GPUS == 0)) || { echo "GPUS=$GPUS: use a divisor of 4" >&2; exit 1; }
PLUGIN=$(python -c 'import fairseq_hybrid_attn as plugin; print(plugin.__path__[0])')
[[ -e $CORPUS/manifest.json ]] || fairseq-hybrid prepare wat17.ja-en.hybrid_gate --output "$CORPUS" --downloads "$DATA"
# Not in the paper (docs/papers/hybrid_gate.md): --encoder-normalize-before --decoder-normalize-before --max-update
#   --eval-bleu-args --save-interval-updates --beam --gnmt-lenpen --max-len-a --max-len-b and which checkpoint
[[ -e $SAVE/model.pt ]] || fairseq-train "$CORPUS/bin" --user-dir "$PLUGIN" --task translation_resumable \
    --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-09 --lr-scheduler inverse_sqrt --warmup-updates 4000 \
    --lr 0.000698771 --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 \
    --arch transformer_hybrid_gate_base --encoder-normalize-before --decoder-normalize-before --dropout 0.1 \
    --attention-dropout 0.1 --activation-dropout 0.1 --weight-decay 1e-07 --max-update 100000 --eval-bleu \
    --eval-bleu-args '{"beam": 4, "gnmt_lenpen": 0.6, "max_len_a": 1, "max_len_b": 49}' --best-checkpoint-metric bleu \
    --maximize-best-checkpoint-metric --hybrid-fusion gate --eval-bleu-detok moses --eval-bleu-remove-bpe '@@ ' \
    --max-tokens 6250 --update-freq "$((4 / GPUS))" --seed "$SEED" --save-interval-updates 2000 \
    --keep-interval-updates 1 --no-epoch-checkpoints --save-interval 1000000 --validate-interval 1000000 \
    --save-dir "$SAVE/checkpoints" --distributed-world-size "$GPUS" --load-checkpoint-on-all-dp-ranks "$DEVICE" "$@"
[[ -e $SAVE/model.pt ]] || fairseq-hybrid average --output "$SAVE/model.pt" "$SAVE/checkpoints/checkpoint_best.pt"
[[ -e $SAVE/gen ]] || { fairseq-generate "$CORPUS/bin" --user-dir "$PLUGIN" --path "$SAVE/model.pt" \
    --task translation_gnmt --beam 4 --gnmt-lenpen 0.6 --max-len-a 1 --max-len-b 49 --max-tokens 12000 \
    --required-batch-size-multiple 1 >"$SAVE/tmp"; mv "$SAVE/tmp" "$SAVE/gen"; }
fairseq-hybrid score --generated "$SAVE/gen" --reference "$CORPUS/raw/test.en" --target-lang en --subwords subword-nmt \
    --tokenizer moses --scores bleu,nist_bleu --hypotheses-out "$SAVE/test.txt"
