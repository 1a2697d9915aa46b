"""The weights' benchmark measures the whole product, and its figures have the names that are promised."""

import torch

from benchmarks import weights


def test_the_bare_product_makes_every_block(monkeypatch) -> None:
    made = []
    whole = torch.mm
    monkeypatch.setattr(torch, "mm", lambda a, b, out: (made.append(out.numel()), whole(a, b, out=out))[1])
    weights._bare((torch.randn(70, 4), torch.randn(50, 4)), (16, 32))
    assert sum(made) == 70 * 50


def test_figures_have_the_promised_names() -> None:
    found = weights._one(weights._thrown(300, "cpu"), 1, "")
    assert set(found) == {"pairs_over_product", "pairs_seconds", "product_seconds"}
    assert all(figure > 0 for figure in found.values())
