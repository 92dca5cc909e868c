"""Every row of the papers' tables, read and built through fairseq's own command-line parser.

What the papers say is written down here a second time, from the papers.
"""

from functools import cache
from itertools import groupby

import yaml
from fairseq import options
from fairseq.models.lstm import LSTMModel
from fairseq.models.transformer import TransformerModel
from models import parameters
from rows import CELLS, FULL, RUNS, build, build_cell, flags, model_settings, parsed

from fairseq_hybrid_attn.attention import PatternedAttention
from fairseq_hybrid_attn.lab.runs.fairseq_commands import flags as flags_of
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local, local_past

#: What the papers say about their systems, by table, row or column; the most specific name counts.
#: One number stands for encoder and decoder.  The peak of the learning rate is given as the
#: factor before width^-0.5 * min(step^-0.5, step * warmup^-1.5).
PAPERS = yaml.safe_load("""
Vaswani et al. 2017, which all follow: &vaswani
  {layers: 6, width: 512, ffn: 2048, heads: 8, pre-norm: false,
  dropout: [0.1, 0, 0],  # of residual connections, attention weights, activations
  betas: [0.9, 0.98], eps: 1.0e-9, weight decay: 0, clipping: 0,
  schedule: inverse_sqrt, warm-up: 4000, peak: 1,
  loss: [fused_label_smoothed_cross_entropy, 0.1], epochs: 0}

all of HySAN: &hysan {<<: *vaswani, task: translation_gnmt, penalty: 0.6, longest: [1, 49], beam: 4,
  tied: all, updates: 100000, evaluated: [update, 1000, 5]}
hysan: &small {<<: *hysan, layers: 2, width: 256, ffn: 1024, heads: 4, tokens: 4096,
  corpus: iwslt14.de-en.hysan, score: tokenised_bleu}
hysan/pre_norm: {<<: *small, pre-norm: true}
hysan/table2b: &base {<<: *hysan, tokens: 32768,  # 8 * 4096
  corpus: wmt14.en-de.hysan, score: compound_split_bleu}
hysan/table3/transformer_base: *base
hysan/table3/hysan_base: *base
hysan/table2c: &big {<<: *base, width: 1024, ffn: 4096, heads: 16, dropout: [0.3, 0, 0],
  updates: 300000, evaluated: [update, 1000, 20]}
hysan/table3/transformer_big: *big
hysan/table3/hysan_big: *big
hysan/table4: {<<: *big, tied: decoder, corpus: wmt17.zh-en, score: bleu}


hybrid_gate: &xu {<<: *vaswani, task: translation_gnmt, penalty: 0.6, longest: [1, 49], beam: 4,
  tied: none, pre-norm: true, dropout: [0.1, 0.1, 0.1], weight decay: 1.0e-7, tokens: 25000,
  updates: 100000, evaluated: [best bleu, 2000, 1], corpus: wmt14.en-de.hybrid_gate,
  score: nist_bleu}
hybrid_gate/table2: {<<: *xu, corpus: wat17.ja-en.hybrid_gate}

all of MMA: &mma {<<: *vaswani, task: translation, penalty: 1, beam: 5, tokens: 4096, updates: 0,
  longest: [0, 200]}  # fairseq's default
mma/table1/ja-en: &wat {<<: *mma, tied: none, epochs: 20, evaluated: [best loss, 5000, 1],
  corpus: wat17.ja-en.mma, score: wat_bleu}
mma/table1/en-ja: {<<: *wat, corpus: wat17.en-ja.mma}
mma/table3/ja-en: *wat
mma/figure3: *wat
mma: {<<: *mma, tied: decoder, ffn: 1024, heads: 4, dropout: [0.3, 0, 0],
  weight decay: 1.0e-4, epochs: 45, evaluated: [best loss, 1000, 1],
  corpus: iwslt14.de-en.mma, score: tokenised_bleu}

alignment: &ma {<<: *vaswani, task: translation, penalty: none, longest: [0, 200], beam: 5,
  tied: none, betas: [0.9, 0.998], warm-up: 8000, peak: 2, tokens: 32768, updates: 50000,
  evaluated: [best loss, 1000, 1], corpus: ldc.en-zh, score: bleu}
alignment/table1/rnn_nmt: &rnn {<<: *ma, layers: 2, ffn: null, heads: null, pre-norm: null,
  dropout: [0.3, null, null], clipping: 5}
alignment/figure1/rnn_nmt: *rnn
alignment/figure2/rnn_nmt: *rnn
alignment/table3/heads1_last: {<<: *ma, heads: 1}
alignment/table3/heads2_last: {<<: *ma, heads: 2}
alignment/table3/heads4_last: {<<: *ma, heads: 4}
alignment/table3/heads16_last: {<<: *ma, heads: 16}
alignment/table4/rnn_nmt_supervised: {<<: *rnn,
  loss: &supervised [label_smoothed_cross_entropy_with_supervised_attention, 0.1]}
alignment/table4/transformer_supervised: {<<: *ma, loss: *supervised}
""")


def said_in_paper(name):
    paper, table, row, column = name.split("/")
    keys = (f"{paper}/{table}/{row}", f"{paper}/{table}/{column}", f"{paper}/{table}", paper)
    return next(PAPERS[key] for key in keys if key in PAPERS)


@cache
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


def test_settings_are_the_papers():
    assert FULL.is_full and FULL.summary
    for name, cell in CELLS.items():
        if not cell.row.cited:
            assert {"cell": name, **seen_by_fairseq(cell)} == {"cell": name, **said_in_paper(name)}


#: What the papers' tables say of encoder | decoder, spelled out independently of the flags: layers
#: of one branch, of branches that are fused, of heads with patterns (with commas), or of fairseq's
#: own heads.  Windows: ±5 is local, -5 local and past.  (HySAN Table 1, c1-c4 and e1: our reading.)
SYSTEMS = yaml.safe_load("""
hysan/table1/base: 2 x global | 2 x past
hysan/table1/a1: 2 x GatedSum(global past) | 2 x past
hysan/table1/a2: 2 x GatedSum(global future) | 2 x past
hysan/table1/a3: 2 x GatedSum(global past future) | 2 x past
hysan/table1/b1: 2 x GatedSum(global ±1) | 2 x past
hysan/table1/b2: 2 x GatedSum(global ±2) | 2 x past
hysan/table1/b3: 2 x GatedSum(global ±5) | 2 x past
hysan/table1/b4: 2 x GatedSum(global ±1 ±2 ±5) | 2 x past
hysan/table1/c1: 2 x GatedSum(global past ±1) | 2 x past
hysan/table1/c2: 2 x GatedSum(global past future ±1) | 2 x past
hysan/table1/c3: 2 x GatedSum(global future ±5) | 2 x past
hysan/table1/c4: 2 x GatedSum(global past future ±5) | 2 x past
hysan/table1/c5: 2 x GatedSum(global past future ±1 ±2 ±5) | 2 x past
hysan/table1/d1: 2 x global | 2 x GatedSum(past -1)
hysan/table1/d2: 2 x global | 2 x GatedSum(past -2)
hysan/table1/d3: 2 x global | 2 x GatedSum(past -5)
hysan/table1/d4: 2 x global | 2 x GatedSum(past -1 -2 -5)
hysan/table1/e1: 2 x GatedSum(global past future ±5) | 2 x GatedSum(past -5)
hysan/pre_norm/base: 2 x global | 2 x past
hysan/pre_norm/e1: 2 x GatedSum(global past future ±5) | 2 x GatedSum(past -5)
hysan/table1/e2: 2 x GatedSum(global past future ±1 ±2 ±5) | 2 x GatedSum(past -1 -2 -5)
hysan/table2a/sum: 2 x Sum(global past future ±5) | 2 x Sum(past -5)
hysan/table2a/concat: 2 x Concat(global past future ±5) | 2 x Concat(past -5)
hysan/table2b/baseline: &base 6 x global | 6 x past
hysan/table2b/sum: &sum 6 x Sum(global past future ±5) | 6 x Sum(past -5)
hysan/table2b/concat: &concat 6 x Concat(global past future ±5) | 6 x Concat(past -5)
hysan/table2b/gated_sum: &gated 6 x GatedSum(global past future ±5) | 6 x GatedSum(past -5)
hysan/table2c/baseline: *base
hysan/table2c/sum: *sum
hysan/table2c/concat: *concat
hysan/table2c/gated_sum: *gated
hysan/table4/transformer_big: *base
hysan/table4/hysan_big: *gated

hybrid_gate/table1/transformer: &transformer fairseq's 6 x 8 heads | 6 x 8 heads
hybrid_gate/table1/neighbor: 2 x global GaussianBias(window) + 4 x global | 6 x 8 heads
hybrid_gate/table1/local_h: 2 x global GaussianBias(centre) + 4 x global | 6 x 8 heads
hybrid_gate/table1/local_s: 2 x global GaussianBias(centre window) + 4 x global | 6 x 8 heads
hybrid_gate/table1/local_pattern: &pattern 2 x ±1 + 4 x global | 6 x 8 heads
hybrid_gate/table1/hybrid_concat: 2 x Concat(global ±1) + 4 x global | 6 x 8 heads
hybrid_gate/table1/hybrid_gate: &gate 2 x HiddenGate(global ±1) + 4 x global | 6 x 8 heads
hybrid_gate/table2/transformer: *transformer
hybrid_gate/table2/local_pattern: *pattern
hybrid_gate/table2/hybrid_gate: *gate
hybrid_gate/figure2/window5: 2 x HiddenGate(global ±2) + 4 x global | 6 x 8 heads
hybrid_gate/figure2/window7: 2 x HiddenGate(global ±3) + 4 x global | 6 x 8 heads
hybrid_gate/figure2/window9: 2 x HiddenGate(global ±4) + 4 x global | 6 x 8 heads
hybrid_gate/figure2/window11: 2 x HiddenGate(global ±5) + 4 x global | 6 x 8 heads
hybrid_gate/figure3/all_layers: 6 x HiddenGate(global ±1) | 6 x 8 heads

mma/table1/transformer: 6 x global,global,global,global,global,global,global,global | 6 x 8 heads
mma/table1/transformer_mma: 6 x global,global,±1,±1,future,future,past,past | 6 x 8 heads
mma/table2/transformer: 6 x global,global,global,global | 6 x 4 heads
mma/table2/transformer_mma: 6 x global,±1,future,past | 6 x 4 heads
mma/table3/transformer_nopos/de-en:
  6 x global,global,global,global without positions | 6 x 4 heads
mma/table3/transformer_nopos/ja-en:
  6 x global,global,global,global,global,global,global,global without positions | 6 x 8 heads
mma/table3/transformer_mma_nopos/de-en:
  6 x global,±1,future,past without positions | 6 x 4 heads
mma/table3/transformer_mma_nopos/ja-en:
  6 x global,global,±1,±1,future,future,past,past without positions | 6 x 8 heads
mma/table4/local: 6 x global,±1,±1,±1 | 6 x 4 heads
mma/table4/forward: 6 x global,future,future,future | 6 x 4 heads
mma/table4/backward: 6 x global,past,past,past | 6 x 4 heads
mma/table5/w2: 6 x global,±2,future,past | 6 x 4 heads
mma/table5/w3: 6 x global,±3,future,past | 6 x 4 heads
mma/table5/w4: 6 x global,±4,future,past | 6 x 4 heads

alignment/table1/rnn_nmt: &rnn
  fairseq's 2 bidirectional LSTMs of 512 | 2 LSTMs of 512 with attention
alignment/table1/transformer: *transformer
alignment/table3/heads1_last: fairseq's 6 x 1 heads | 6 x 1 heads
alignment/table3/heads2_last: fairseq's 6 x 2 heads | 6 x 2 heads
alignment/table3/heads4_last: fairseq's 6 x 4 heads | 6 x 4 heads
alignment/table3/heads16_last: fairseq's 6 x 16 heads | 6 x 16 heads
alignment/table4/rnn_nmt_supervised: *rnn
alignment/table4/transformer_supervised: *transformer
alignment/table5/forward_encoding_mask: 6 x past | 6 x past
alignment/table5/backward_encoding_mask: 6 x future | 6 x past
alignment/table6/encoder_lstm1: 6 x 8 heads + 1 LSTM | 6 x 8 heads
alignment/table6/encoder_lstm2: 6 x 8 heads + 2 LSTM | 6 x 8 heads
alignment/table6/decoder_lstm1: 6 x 8 heads | 6 x 8 heads + 1 LSTM
alignment/table6/decoder_lstm2: 6 x 8 heads | 6 x 8 heads + 2 LSTM
alignment/table6/both_lstm2: 6 x 8 heads + 2 LSTM | 6 x 8 heads + 2 LSTM
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


def test_every_run_trains_the_system_that_its_table_says():
    used = set()
    for name in RUNS:
        row = name if name in SYSTEMS else name.rpartition("/")[0]
        wanted = SYSTEMS[row]
        if name.endswith("/nopos"):
            wanted = " | ".join(f"{side} without positions" for side in wanted.split(" | "))
        assert told(build_cell(name)) == wanted, name
        used.add(row)
    assert used == SYSTEMS.keys()


def added(row, baseline):
    """How many more parameters a row's model has than another's."""
    return parameters(build_cell(f"{row}/bleu")) - parameters(build_cell(f"{baseline}/bleu"))


def test_parameters_that_the_papers_ways_of_fusing_add():
    # HySAN's Table 2 reports +32K / +383K / +1.57M and +524K / +6.29M / +25.1M; exactly, from
    # N * 2 * (2 d d/16) and N * 4 * d^2 with N, d = 2, 256 / 6, 512 / 6, 1024.
    for table, concat, gated_sum in (
        ("hysan/table2a", 524_288, 32_768),
        ("hysan/table2b", 6_291_456, 393_216),
        ("hysan/table2c", 25_165_824, 1_572_864),
    ):
        for row, expected in {"sum": 0, "concat": concat, "gated_sum": gated_sum}.items():
            assert added(f"{table}/{row}", f"{table}/baseline") == expected, (table, row)
    for row, expected in {
        "local_pattern": 0,
        "hybrid_gate": 2 * 512,  # W of width d, in two layers
        "hybrid_concat": 2 * 512 * 512,  # H of 2d x d in place of W^o of d x d
        "neighbor": 2 * (512 * 512 + 512),  # W of d x d and U of d
        "local_h": 2 * (512 * 512 + 512),
        "local_s": 2 * 2 * (512 * 512 + 512),
    }.items():
        assert added(f"hybrid_gate/table1/{row}", "hybrid_gate/table1/transformer") == expected, row


def test_hysan_small_baseline_has_11_9_million():
    model = build_cell("hysan/table2a/baseline/bleu", symbols=32_000 - 4)
    assert round(parameters(model) / 1e6, 1) == 11.9
    # 32,000 shared words of width 256, an encoder layer of 789,760 and a decoder layer of
    # 1,053,440 weights, twice each.
    assert parameters(model) == 32_000 * 256 + 2 * (789_760 + 1_053_440)


def test_hybrid_gate_88_million_need_separate_dictionaries():
    stock = parameters(build_cell("hybrid_gate/table1/transformer/bleu", symbols=32_000 - 4))
    assert round(stock / 1e6, 1) == 93.3
    layers = stock - 3 * 32_000 * 512  # embeddings of source and target, and the output
    assert layers == 44_140_544
    # The reported 88.0M leave 85,700 words for the three.
    assert [round((total - layers) / 512, -2) for total in (87.95e6, 88.05e6)] == [85_600, 85_800]


def test_parameters_of_architectures_with_other_options():
    stock = parameters(build(("--arch", "transformer")))
    for words, expected in (
        ("--arch transformer_mma_base", 0),
        ("--arch transformer_hysan --encoder-branches fw --decoder-branches fw", 0),
        # The gate of the published code has a number for each head.
        ("--arch transformer_hybrid_gate_base --gate-input query", 2 * 512 * 8),
    ):
        assert parameters(build(tuple(words.split()))) - stock == expected, words
