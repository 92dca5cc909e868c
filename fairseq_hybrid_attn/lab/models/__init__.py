"""Trained models: found, loaded, run on text, averaged; what their attention does; translation.

What commands' help needs is here: the modules that do the work import torch, which takes seconds.
"""

#: Encoder self-attention, decoder self-attention, attention of the decoder to the encoder.
ENCODER, DECODER, CROSS = KINDS = ("encoder", "decoder", "cross")
