"""Rows of the papers' tables, read and built through fairseq's own command-line parser.

What the papers say is written down here a second time, from the papers.
"""

from itertools import groupby

import yaml
from fairseq import options
from fairseq.models.lstm import LSTMModel
from fairseq.models.transformer import TransformerModel
from models import parameters
from rows import CELLS, FULL, build_cell, flags, model_settings, parsed

from fairseq_hybrid_attn.attention import PatternedAttention
from fairseq_hybrid_attn.lab.run.fairseq_commands import flags as flags_of
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local, local_past

#: A run of each paper: its result and its settings.  One number stands for encoder and decoder;
#: dropout is that of residual connections, attention weights and activations; the peak of the
#: learning rate is the factor before width^-0.5 * min(step^-0.5, step * warmup^-1.5).
PAPERS = yaml.safe_load("""
all follow Vaswani et al. 2017: &vaswani
  {layers: 6, width: 512, ffn: 2048, heads: 8, pre-norm: false, dropout: [0.1, 0, 0],
  betas: [0.9, 0.98], eps: 1.0e-9, weight decay: 0, clipping: 0,
  schedule: inverse_sqrt, warm-up: 4000, peak: 1,
  loss: [fused_label_smoothed_cross_entropy, 0.1], epochs: 0, score: bleu}
hysan/table2c/gated_sum/bleu: {<<: *vaswani, number: 28.8, corpus: wmt14.en-de.hysan,
  width: 1024, ffn: 4096, heads: 16, dropout: [0.3, 0, 0], tied: all,
  tokens: 32768, updates: 300000, evaluated: [update, 1000, 20], score: compound_split_bleu,
  task: translation_gnmt, beam: 4, penalty: 0.6, longest: [1, 49]}
hybrid_gate/table1/hybrid_gate/bleu: {<<: *vaswani, number: 28.31,
  corpus: wmt14.en-de.hybrid_gate, pre-norm: true, dropout: [0.1, 0.1, 0.1], weight decay: 1.0e-7,
  tied: none, tokens: 25000, updates: 100000, evaluated: [best bleu, 2000, 1], score: nist_bleu,
  task: translation_gnmt, beam: 4, penalty: 0.6, longest: [1, 49]}
mma/table2/transformer_mma/de-en: {<<: *vaswani, number: 35.41, corpus: iwslt14.de-en.mma,
  ffn: 1024, heads: 4, dropout: [0.3, 0, 0], weight decay: 1.0e-4, tied: decoder,
  tokens: 4096, updates: 0, epochs: 45, evaluated: [best loss, 1000, 1], score: tokenised_bleu,
  task: translation, beam: 5, penalty: 1, longest: [0, 200]}
alignment/table6/decoder_lstm2/nist02_words: {<<: *vaswani, number: 26.33, corpus: ldc.en-zh,
  betas: [0.9, 0.998], warm-up: 8000, peak: 2, tied: none,
  tokens: 32768, updates: 50000, evaluated: [best loss, 1000, 1],
  task: translation, beam: 5, penalty: none, longest: [0, 200]}
""")


def decoding(words):
    parser = options.get_generation_parser()
    return options.parse_args_and_arch(parser, ["data", "--path", "model.pt", *words])


def seen_by_fairseq(cell):
    chosen = cell.settings(FULL)
    args = parsed(flags(chosen))
    model = model_settings(args)
    task = "translation_gnmt" if "gnmt-lenpen" in chosen.generate else "translation"
    generating = decoding(tuple(flags_of({"task": task, **chosen.generate})))

    def both(name):
        """The values of encoder and decoder; the decoder's size defaults to the encoder's."""
        encoder = getattr(model, f"encoder_{name}", None)
        decoder = getattr(model, f"decoder_{name}", None)
        return encoder if decoder in (None, encoder) else [encoder, decoder]

    shared = getattr(model, "share_all_embeddings", False)
    decoder_shared = getattr(model, "share_decoder_input_output_embed", False)
    metric, unit = args.best_checkpoint_metric, chosen.checkpoints.unit
    by_bleu = unit == "best" and metric == "bleu"
    assert by_bleu == args.maximize_best_checkpoint_metric == bool(args.eval_bleu)
    penalty = generating.lenpen
    if task == "translation_gnmt":
        penalty = generating.gnmt_lenpen
    elif generating.unnormalized:
        penalty = "none"
    (lr,) = args.lr
    assert args.optimizer == "adam" and not args.use_old_adam
    assert args.warmup_init_lr < 0  # from 0
    dropouts = ("dropout", "attention_dropout", "activation_dropout")
    return {
        "layers": both("layers"),
        "width": both("embed_dim"),
        "ffn": both("ffn_embed_dim"),
        "heads": both("attention_heads"),
        "pre-norm": both("normalize_before"),
        "dropout": [getattr(model, name, None) for name in dropouts],
        "tied": "all" if shared else "decoder" if decoder_shared else "none",
        "betas": yaml.safe_load(args.adam_betas.replace("(", "[").replace(")", "]")),
        "eps": args.adam_eps,
        "weight decay": args.weight_decay,
        "clipping": args.clip_norm,
        "schedule": args.lr_scheduler,
        "warm-up": args.warmup_updates,
        "peak": round(lr * (both("embed_dim") * args.warmup_updates) ** 0.5, 5),
        "loss": [args.criterion, args.label_smoothing],
        "epochs": args.max_epoch,
        "updates": args.max_update,
        "tokens": chosen.batch.tokens,
        "evaluated": [
            f"best {metric}" if unit == "best" else unit,
            *(chosen.checkpoints.every, chosen.checkpoints.average),
        ],
        "corpus": chosen.corpus,
        "score": cell.owner.column.score,
        "task": generating.task,
        "beam": generating.beam,
        "penalty": penalty,
        "longest": [generating.max_len_a, generating.max_len_b],
    }


def test_numbers_and_settings_are_the_papers():
    assert not FULL.settings and FULL.summary
    for name in [name for name in PAPERS if "/" in name]:
        cell = CELLS[name]
        found = {"number": cell.row.paper[cell.column.name], **seen_by_fairseq(cell)}
        assert {"cell": name, **found} == {"cell": name, **PAPERS[name]}


#: What the papers say of encoder | decoder, a system of each kind: layers of one branch, of fused
#: branches, of heads with patterns (with commas), or of fairseq's own heads.  Windows: ±5 is local,
#: -5 local and past.
SYSTEMS = yaml.safe_load("""
hysan/table1/e1/nopos: 2 x GatedSum(global past future ±5) without positions |
  2 x GatedSum(past -5) without positions
hysan/table2c/concat/bleu: 6 x Concat(global past future ±5) | 6 x Concat(past -5)
hybrid_gate/table1/transformer/bleu: fairseq's 6 x 8 heads | 6 x 8 heads
hybrid_gate/table1/local_s/bleu: 2 x global GaussianBias(centre window) + 4 x global | 6 x 8 heads
hybrid_gate/table1/hybrid_gate/bleu: 2 x HiddenGate(global ±1) + 4 x global | 6 x 8 heads
mma/table1/transformer_mma/en-ja:
  6 x global,global,±1,±1,future,future,past,past | 6 x 8 heads
alignment/table1/rnn_nmt/aer:
  fairseq's 2 bidirectional LSTMs of 512 | 2 LSTMs of 512 with attention
alignment/table5/backward_encoding_mask/aer: 6 x future | 6 x past
alignment/table6/both_lstm2/aer: 6 x 8 heads + 2 LSTM | 6 x 8 heads + 2 LSTM
""")
PATTERNS = {GLOBAL: "global", PAST: "past", FUTURE: "future"}
for window in range(1, 6):
    PATTERNS |= {local(window): f"±{window}", local_past(window): f"-{window}"}


def told(model):
    """A model in the words of SYSTEMS."""
    encoder, decoder = model.encoder, model.decoder
    if type(model) is LSTMModel:
        kind = "bidirectional " * encoder.lstm.bidirectional
        attention = " with attention" * (decoder.attention is not None)
        return (
            f"fairseq's {encoder.lstm.num_layers} {kind}LSTMs of {encoder.output_units} | "
            f"{len(decoder.layers)} LSTMs of {decoder.hidden_size}{attention}"
        )
    for layer in decoder.layers:
        assert layer.encoder_attn.num_heads == layer.self_attn.num_heads
    own = "fairseq's " * (type(model) is TransformerModel)
    return f"{own}{side_told(encoder)} | {side_told(decoder)}"


def side_told(side):
    layers = groupby(attention_told(layer.self_attn) for layer in side.layers)
    text = " + ".join(f"{len(list(alike))} x {told}" for told, alike in layers)
    if hasattr(side, "top"):
        text += f" + {side.top.lstm.num_layers} LSTM"
    return text + " without positions" * (side.embed_positions is None)


def attention_told(attention):
    if not isinstance(attention, PatternedAttention):
        return f"{attention.num_heads} heads"
    text = " ".join(",".join(PATTERNS[head] for head in branch) for branch in attention.branches)
    fusion = type(attention.fusion).__name__
    if len(attention.branches) > 1 or fusion != "Sum":
        text = f"{fusion}({text})"
    if attention.bias is not None:
        parts = [p for p in ("centre", "window") if getattr(attention.bias, p) is not None]
        text += f" {type(attention.bias).__name__}({' '.join(parts)})"
    return text


def test_runs_train_the_systems_that_their_tables_say():
    assert {name: told(build_cell(name)) for name in SYSTEMS} == SYSTEMS


def added(row, baseline):
    """How many more parameters a row's model has than another's."""
    return parameters(build_cell(f"{row}/bleu")) - parameters(build_cell(f"{baseline}/bleu"))


def test_parameters_that_the_papers_ways_of_fusing_add():
    # HySAN's Table 2 reports +32K / +1.57M and +524K / +25.1M; exactly, from N * 2 * (2 d d/16)
    # and N * 4 * d^2 with N, d = 2, 256 / 6, 1024.
    for table, concat, gated_sum in (
        ("hysan/table2a", 524_288, 32_768),
        ("hysan/table2c", 25_165_824, 1_572_864),
    ):
        for row, expected in {"sum": 0, "concat": concat, "gated_sum": gated_sum}.items():
            assert added(f"{table}/{row}", f"{table}/baseline") == expected, (table, row)
    for row, expected in {
        "hybrid_gate": 2 * 512,  # W of width d, in two layers
        "hybrid_concat": 2 * 512 * 512,  # H of 2d x d in place of W^o of d x d
        "local_s": 2 * 2 * (512 * 512 + 512),  # W of d x d and U of d, twice
    }.items():
        assert added(f"hybrid_gate/table1/{row}", "hybrid_gate/table1/transformer") == expected, row


def test_hysan_small_baseline_has_11_9_million():
    model = build_cell("hysan/table2a/baseline/bleu", symbols=32_000 - 4)
    assert round(parameters(model) / 1e6, 1) == 11.9
    # 32,000 shared words of width 256, an encoder layer of 789,760 and a decoder layer of
    # 1,053,440 weights, twice each.
    assert parameters(model) == 32_000 * 256 + 2 * (789_760 + 1_053_440)
