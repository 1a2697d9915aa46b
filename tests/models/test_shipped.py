"""The steers that come with the product are what their cards say, and work on text that their making never saw."""

import pytest

from backend.models.catalogue import CATALOGUE
from backend.models.snippets import RECIPES
from backend.models.steers import Steers, fit_of, shelved
from backend.models.vectors import SHIPPED, Vectors, card_of, digest, folders
from backend.studies.making import recipe_of
from tests.package_models import package_loaded

OURS = {card.name: card for card in Steers(SHIPPED / "nowhere").cards()}


def test_sentiment_comes_with_the_product():
    assert "sentiment" in OURS
    assert set(OURS) <= set(RECIPES), "each can be made again"


@pytest.mark.parametrize("name", OURS)
def test_its_numbers_are_those_of_its_card_and_small(name):
    card, (folder,) = OURS[name], [folder for folder in folders(SHIPPED, "steer") if folder.name.startswith(name)]
    matrix = Vectors(SHIPPED / "nowhere").steer(card.id)
    assert digest("steer", {"left": matrix.left_DK, "right": matrix.right_KD}) == card.id == card_of(folder).id
    assert (card.width, card.rank, card.ours) == (*matrix.left_DK.shape, True)
    assert sum(file.stat().st_size for file in folder.iterdir()) < 300_000
    assert sorted(file.name for file in folder.iterdir()) == ["card.json", "numbers.safetensors", "steer.json"]


@pytest.mark.parametrize("name", OURS)
def test_it_moves_both_poles_the_right_way_and_further_than_chance(name):
    card = OURS[name]
    evidence = card.evidence
    assert evidence.plus.high < 0 < evidence.minus.low
    assert evidence.plus.high < evidence.random_plus.low
    assert evidence.minus.low > evidence.random_minus.high
    assert evidence.plus.n >= 50
    assert evidence.minus.n >= 50
    assert card.range.low < -1
    assert card.range.high > 1


@pytest.mark.parametrize("name", OURS)
def test_its_card_says_the_recipe_that_makes_it_again(name):
    card, recipe = OURS[name], RECIPES[name]
    asked = recipe.make(card.data.digest)
    assert (card.plus, card.minus, card.model) == (recipe.plus, recipe.minus, asked.model)
    assert card.digest == CATALOGUE[asked.model].digest
    step = int(card.recipe.partition("the numbers of step ")[2].partition(",")[0])
    assert card.recipe == recipe_of(asked, step)
    assert card.data.plus == card.data.minus == recipe.each
    assert "third-party" in card.data.licence


@pytest.mark.pretrained
def test_all_of_them_fit_the_default_model():
    fit = fit_of(package_loaded("smollm2-135m-instruct"))
    assert [(card.name, shelved(card, fit).fits, shelved(card, fit).why) for card in OURS.values()] == [
        (name, True, "") for name in OURS
    ]
