"""Look into trained models: attention maps, gates, heads; the style of all figures.

What commands' help needs is here: the modules that do the work import torch, which takes seconds.
"""

#: Encoder self-attention, decoder self-attention, attention of the decoder to the encoder.
ENCODER, DECODER, CROSS = KINDS = ("encoder", "decoder", "cross")
#: What the rows and columns of a map can be.
UNITS = ("words", "subwords")
