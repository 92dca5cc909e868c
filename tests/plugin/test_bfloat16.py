"""Where bfloat16 is worth it."""

from pathlib import Path

import pytest
import torch

from fairseq_hybrid_attn.devices import bfloat16_pays


@pytest.mark.parametrize(
    ("amx", "avx512", "vendor", "pays"),
    [
        (True, True, "GenuineIntel", True),
        (False, True, "AuthenticAMD", True),
        (False, True, "GenuineIntel", False),
        (False, False, "AuthenticAMD", False),
    ],
)
def test_where_bfloat16_pays(amx, avx512, vendor, pays, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    monkeypatch.setattr(Path, "read_text", lambda path: f"vendor_id : {vendor}")
    assert bfloat16_pays() == pays
