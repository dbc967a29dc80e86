"""The example of the page "Train a model": its training images, and how two pictures are compared."""

from __future__ import annotations

import math
import re

import pytest
import torch

from examples.train_a_model import EPOCHS, KINDS, NUMBER, PICTURE, batches, deviation, drawings, plot

STEPS = 320


def picture(first: float = 1.0) -> str:
    falling = [first] + [math.exp(-step / 100) for step in range(1, STEPS)]
    return plot((falling, [0.5] * EPOCHS), (falling, [0.5] * EPOCHS))


def test_drawings_are_those_of_their_seed() -> None:
    images, kinds = drawings(200, seed=3).tensors
    again, other = drawings(200, seed=3).tensors[0], drawings(200, seed=4).tensors[0]
    assert images.shape == (200, 1, 16, 16)
    assert kinds.unique().tolist() == list(range(len(KINDS)))
    assert torch.equal(images, again)
    assert not torch.equal(images, other)


def test_each_kind_covers_another_part_of_the_image() -> None:
    images, kinds = drawings(4000, seed=5).tensors
    covered = [images[kinds == kind].mean().item() for kind in range(len(KINDS))]
    # The mean of size * size, for sizes of 0.5 to 0.8. A pixel is 2 / 15 wide, and an image has 16 by 16.
    square_of_size = (0.8**3 - 0.5**3) / 3 / 0.3
    areas = [math.pi, (2 * 0.9) ** 2, 3 * math.sqrt(3) * 0.6**2, 4 * (2 * 0.3 - 0.3**2)]
    assert covered == pytest.approx([area * square_of_size * (15 / 2 / 16) ** 2 for area in areas], rel=0.1)


def test_the_order_of_batches_is_that_of_every_program() -> None:
    data = drawings(128, seed=6)
    orders = [[kinds.tolist() for _, kinds in loader] for loader in (batches(data), batches(data))]
    assert orders[0] == orders[1]
    loader = batches(data)
    assert [kinds.tolist() for _, kinds in loader] != [kinds.tolist() for _, kinds in loader]


def test_a_picture_is_compared_number_by_number() -> None:
    assert deviation(picture(), picture()) == 0
    # 100 units of a picture are a loss of one, on two lines.
    assert deviation(picture(), picture(first=1.01)) == pytest.approx(1.0)
    assert deviation(picture(first=1.0001), picture()) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize(
    ("old", "new"),
    [(">loss<", ">error<"), ("currentColor", "red"), (r"L \S+ \S+ *\n", ""), ("</svg>", "<text>1</text></svg>")],
)
def test_a_picture_that_differs_in_more_is_refused(old: str, new: str) -> None:
    altered = re.sub(old, new, picture(), count=1)
    with pytest.raises(ValueError, match=r"^the pictures differ in more than their numbers$"):
        deviation(altered, picture())


def test_the_picture_of_the_page_is_drawn_by_this_code() -> None:
    """All of it except the numbers, which the page compares after the training."""
    shown = PICTURE.read_text(encoding="utf-8")
    assert NUMBER.split(shown)[::2] == NUMBER.split(picture())[::2]


def test_a_picture_takes_the_colours_of_the_page() -> None:
    assert set(re.findall(r"(?:stroke|fill|color): ([^;\"]*)", picture())) == {
        "none", "currentColor", "var(--guide-rule, #c2410c)",
    }  # fmt: skip
    assert "font-family: " not in picture()
