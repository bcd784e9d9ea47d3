"""Embedding spaces: centring, axes, the two maps, the file form; and calibration from labelled pairs."""

import json
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.adapters.embedder_bundled import DIM, MODEL, BundledEmbedder
from memory_service.domain.calibration import (
    ASKING,
    EMPTY_FLOOR,
    SAME_ERROR,
    UPDATE_ERROR,
    LabelledPair,
    PairTexts,
    calibrate,
    parse_pairs,
    texts_of,
)
from memory_service.domain.model import Vector
from memory_service.domain.space import OF_SELF, EmbeddingSpace, Knots, bundled_space, make_space
from memory_service.domain.subjects import of_self, told

PLAIN: Knots = ((-1.0, -1.0), (1.0, 1.0))
PAIRS = parse_pairs((resources.files("memory_service") / "data/calibration_pairs.tsv").read_text("utf-8"))


def space_of(passage: list[float], query: list[float], recall: Knots = PLAIN, dedup: Knots = PLAIN) -> EmbeddingSpace:
    return make_space("M/Model_v1", np.array(passage, np.float32), np.array(query, np.float32), recall, dedup)


# --- centring ---


def test_each_prefix_has_its_own_mean() -> None:
    space = space_of([1.0, 0.0], [0.0, 1.0])
    raw = np.array([0.6, 0.8], np.float32)
    assert space.passage(raw) == pytest.approx(np.array([-0.4, 0.8]) / np.hypot(0.4, 0.8), abs=1e-6)
    assert space.query(raw) == pytest.approx(np.array([0.6, -0.2]) / np.hypot(0.6, 0.2), abs=1e-6)


def test_vectors_come_out_unit_float32_and_rows_equal_singles() -> None:
    space = space_of([0.3, 0.1, 0.0], [0.0, 0.0, 0.0])
    rows = np.random.default_rng(1).standard_normal((20, 3)).astype(np.float32)
    found = space.passage(rows)
    assert found.dtype == np.float32
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(20), abs=1e-6)
    assert np.array_equal(found[7], space.passage(rows[7]))


def test_a_vector_that_equals_the_mean_keeps_its_direction() -> None:
    space = space_of([0.6, 0.8], [0.0, 0.0])
    assert space.passage(np.array([0.6, 0.8], np.float32)) == pytest.approx([0.6, 0.8], abs=1e-6)


def tilted_space() -> EmbeddingSpace:
    none, language, asking = (np.array(v, np.float32) for v in ([0, 0, 0, 0], [1, 0, 0, 0], [0, 0.5, 0, 0]))
    return make_space("m", none, none, PLAIN, PLAIN, language_axis=language, asking=asking)


def test_the_language_axis_is_taken_out_of_both_sides() -> None:
    space = tilted_space()
    rows = np.random.default_rng(2).standard_normal((9, 4)).astype(np.float32)
    other_language = rows + np.array([5, 0, 0, 0], np.float32)
    for centre in (space.passage, space.query):
        assert centre(rows)[:, 0] == pytest.approx(np.zeros(9), abs=1e-6)
        assert centre(rows) == pytest.approx(centre(other_language), abs=1e-5)


def test_every_passage_gets_the_same_share_of_asking() -> None:
    space = tilted_space()
    rows = np.random.default_rng(3).standard_normal((9, 4)).astype(np.float32)
    found = space.passage(rows)
    assert found[:, 1] == pytest.approx(np.full(9, 0.5 / np.sqrt(1.25)), abs=1e-6)
    about_me, about_the_world = space.query(np.array([[0, 3, 1, 1], [0, -3, 1, 1]], np.float32))
    assert (found @ about_me > found @ about_the_world).all()
    assert list(np.argsort(found @ about_me)) == list(np.argsort(found @ about_the_world))


def test_asking_changes_nothing_between_passages_but_the_scale() -> None:
    space = tilted_space()
    plain = replace(space, asking=np.zeros(4, np.float32))
    rows = np.random.default_rng(4).standard_normal((12, 4)).astype(np.float32)
    rows[:, 1] = 0
    with_it, without = (s.passage(rows) @ s.passage(rows).T for s in (space, plain))
    assert with_it == pytest.approx((without + 0.25) / 1.25, abs=1e-5)


def mapped_space() -> EmbeddingSpace:
    """What a query says of wine it also says of the vineyard."""
    none = np.zeros(3, np.float32)
    wine, vineyard = (np.array([row], np.float32) for row in ([1, 0, 0], [0, 2, 0]))
    return make_space("m", none, none, PLAIN, PLAIN, query_map=(wine, vineyard))


def test_the_query_map_moves_queries_and_no_passage() -> None:
    space = mapped_space()
    rows = np.array([[1, 0, 0], [0, 0, 1]], np.float32)
    assert np.array_equal(space.passage(rows), rows)
    found = space.query(rows)
    assert found[0] == pytest.approx(np.array([1, 2, 0]) / np.sqrt(5), abs=1e-6)
    assert found[1] == pytest.approx([0, 0, 1], abs=1e-6)
    assert np.array_equal(found[0], space.query(rows[0]))


def test_a_query_that_the_map_undoes_keeps_its_direction() -> None:
    none, axis = np.zeros(2, np.float32), np.array([[1, 0]], np.float32)
    space = make_space("m", none, none, PLAIN, PLAIN, query_map=(axis, -axis))
    assert space.query(np.array([1, 0], np.float32)) == pytest.approx([1, 0], abs=1e-6)


def test_a_query_about_oneself_is_ahead() -> None:
    space = space_of([0.0], [0.0])
    assert space.recall_similarity(0.2, of_self=True) == pytest.approx(0.2 + OF_SELF)
    assert space.recall_similarity(0.2) == pytest.approx(0.2)


@pytest.mark.parametrize("raw", [[1.0], [1.0, 0.0, 0.0], [float("nan"), 0.0], [float("inf"), 0.0]])
def test_vectors_of_another_model_are_refused(raw: list[float]) -> None:
    space = space_of([0.0, 0.0], [0.0, 0.0])
    for centre in (space.passage, space.query):
        with pytest.raises(ValueError, match="vector"):
            centre(np.array(raw, np.float32))


# --- the maps ---


def test_maps_run_through_their_knots_and_back() -> None:
    space = space_of([0.0], [0.0], ((-1.0, -1.0), (0.1, 0.0), (0.2, 0.3), (1.0, 1.0)), ((-1, -1), (0.9, 0.85), (1, 1)))
    assert list(space.recall_similarity([-1, 0.1, 0.15, 0.2, 1, 2, -3])) == pytest.approx([-1, 0, 0.15, 0.3, 1, 1, -1])
    assert space.raw_recall(0.3) == pytest.approx(0.2)
    assert space.raw_dedup(0.85) == pytest.approx(0.9)
    assert float(space.dedup_similarity(0.9)) == pytest.approx(0.85)
    assert space.recall_similarity(np.zeros((2, 3))).shape == (2, 3)


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_shipped_maps_are_monotone_and_turn_back(one: float, other: float) -> None:
    space = bundled_space()
    for there, back in ((space.recall_similarity, space.raw_recall), (space.dedup_similarity, space.raw_dedup)):
        low, high = there([min(one, other), max(one, other)])
        assert -1 <= low <= high <= 1
        assert back(float(there(one))) == pytest.approx(one, abs=1e-6)


# --- the file form ---


def test_file_form_returns_the_same_space() -> None:
    space = space_of([0.1, 0.123456789], [0.3, -0.2], ((-1, -1), (0.2, 0.3), (1, 1)))
    again = EmbeddingSpace.from_json(space.to_json())
    assert again.id == space.id
    assert again.id.startswith("m-model-v1-2-")
    assert (again.model, again.dim) == ("M/Model_v1", 2)
    assert np.array_equal(again.passage_mean, space.passage_mean)
    assert np.array_equal(again.query_mean, space.query_mean)
    assert (again.recall_knots, again.dedup_knots) == (space.recall_knots, space.dedup_knots)


def test_file_form_keeps_the_axes() -> None:
    space = tilted_space()
    again = EmbeddingSpace.from_json(space.to_json())
    assert again.id == space.id
    assert np.array_equal(again.language_axis, space.language_axis)
    assert np.array_equal(again.asking, space.asking)


def test_file_form_keeps_the_query_map() -> None:
    for space in (mapped_space(), tilted_space()):
        again = EmbeddingSpace.from_json(space.to_json())
        assert again.id == space.id
        assert np.array_equal(again.query_reads, space.query_reads)
        assert np.array_equal(again.query_writes, space.query_writes)
        assert again.query_reads.shape == space.query_reads.shape


def test_another_content_is_another_id() -> None:
    zero = np.zeros(1, np.float32)
    ids = {
        make_space("M/Model_v1", zero, zero, PLAIN, PLAIN, asking=np.array([0.1], np.float32)).id,
        make_space("M/Model_v1", zero, zero, PLAIN, PLAIN, language_axis=np.array([1], np.float32)).id,
        space_of([0.1], [0.2]).id,
        space_of([0.2], [0.1]).id,
        space_of([0.1], [0.2], ((-1, -1), (0.2, 0.3), (1, 1))).id,
        space_of([0.1], [0.2], PLAIN, ((-1, -1), (0.2, 0.3), (1, 1))).id,
        make_space("other", np.array([0.1], np.float32), np.array([0.2], np.float32), PLAIN, PLAIN).id,
    }
    assert len(ids) == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "m-model-v1-2-00000000"}, "its content is"),
        ({"dim": 3}, "its content is"),
        ({"passage_mean": [0.5, 0.5]}, "its content is"),
        ({"passage_mean": [0.1]}, "one length"),
        ({"passage_mean": [], "query_mean": []}, "one length"),
        ({"query_mean": [[0.1], [0.2]]}, "one length"),
        ({"query_mean": [float("nan"), 0.1]}, "not finite"),
        ({"query_mean": ["x", 0.1]}, "malformed"),
        ({"recall_knots": [[-1, -1], [0.5, 0.3], [0.4, 0.5], [1, 1]]}, "increase"),
        ({"recall_knots": [[-1, -1], [0.4, 0.5], [0.5, 0.5], [1, 1]]}, "increase"),
        ({"dedup_knots": [[-1, -1], [float("nan"), 0.5], [1, 1]]}, "increase"),
        ({"dedup_knots": [[0, 0], [1, 1]]}, "run from"),
        ({"dedup_knots": [[-1, -1], [0.9, 0.85]]}, "run from"),
        ({"dedup_knots": []}, "run from"),
        ({"dedup_knots": 3}, "malformed"),
        ({"model": ""}, "no name"),
        ({"asking": [0.1]}, "one length"),
        ({"asking": [0.1, float("nan")]}, "not finite"),
        ({"language_axis": [0.5, 0.0]}, "unit length"),
        ({"language_axis": [1.0, 0.0], "asking": [0.1, 0.0]}, "orthogonal"),
        ({"query_reads": [[0.1, 0.2]]}, "query map"),
        ({"query_reads": [[0.1, 0.2, 0.3]], "query_writes": [[0.1, 0.2, 0.3]]}, "query map"),
        ({"query_reads": [[0.1, float("nan")]], "query_writes": [[0.1, 0.2]]}, "query map"),
        ({"query_reads": [[0.1, 0.2]] * 65, "query_writes": [[0.1, 0.2]] * 65}, "rank"),
        ({"query_reads": [0.1, 0.2], "query_writes": [0.1, 0.2]}, "query map"),
        ({"query_reads": [[0.1], [0.2, 0.3]]}, "malformed"),
        ({"format": 2}, "format"),
    ],
)
def test_a_damaged_file_is_refused(change: dict[str, object], message: str) -> None:
    good = json.loads(space_of([0.1, 0.2], [0.3, 0.4]).to_json())
    with pytest.raises(ValueError, match=message):
        EmbeddingSpace.from_json(json.dumps({**good, **change}))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_what_is_no_space_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="embedding space"):
        EmbeddingSpace.from_json(text)


# --- the pair file ---


def test_shipped_pairs_are_enough_and_in_both_languages() -> None:
    labelled = [pair for pair in PAIRS if pair.task != "corpus"]
    assert len(labelled) >= 500
    for lang in ("zh", "en"):
        assert sum(pair.lang == lang for pair in labelled) >= 200
    assert len(texts_of(PAIRS).passages) >= 500


def test_texts_are_named_once_each() -> None:
    pairs = [
        LabelledPair("recall", "related", "en", "q", "p"),
        LabelledPair("dedup", "same", "en", "p", "r"),
        LabelledPair("corpus", "query", "en", "q", ""),
        LabelledPair("corpus", "passage", "en", "s", ""),
    ]
    assert texts_of(pairs) == PairTexts(("p", "r", "s"), ("q",))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("recall\tsame\ten\ta\tb", "line 3: wanted five fields"),
        ("reread\trelated\ten\ta\tb", "line 3: wanted five fields"),
        ("recall\trelated\ten\ta", "line 3: wanted five fields"),
        ("recall\trelated\ten\ta\t ", "line 3: a text is missing"),
        ("corpus\tquery\ten\ta\tb", "line 3: a text is missing, or a corpus line has two"),
        ("recall\trelated\ten\ta\tb\nrecall\trelated\ten\ta\tb", "line 4: the pair is there twice"),
    ],
)
def test_a_bad_line_is_named(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_pairs("# made up\ntask\tlabel\tlang\ta\tb\n" + line)


def test_a_file_without_header_is_refused() -> None:
    with pytest.raises(ValueError, match="line 1: wanted the header"):
        parse_pairs("recall\trelated\ten\ta\tb")


# --- calibration ---


def made_up(noise: float) -> tuple[list[LabelledPair], dict[str, Vector], dict[str, Vector]]:
    """40 pairs of each label whose vectors sit around their topic with `noise`, on top of one large common part."""
    rng = np.random.default_rng(5)
    dim = 64
    common = 3 * rng.standard_normal(dim)
    topics = rng.standard_normal((200, dim))
    pairs: list[LabelledPair] = []
    passages: dict[str, Vector] = {}
    queries: dict[str, Vector] = {}

    def put(into: dict[str, Vector], text: str, topic: int, spread: float) -> str:
        vector = common + topics[topic] + spread * noise * rng.standard_normal(dim)
        into[text] = (vector / np.linalg.norm(vector)).astype(np.float32)
        return text

    for n in range(40):
        memory = put(passages, f"m{n}", n, 1)
        pairs.append(LabelledPair("recall", "related", "en", put(queries, f"q{n}", n, 1), memory))
        pairs.append(LabelledPair("recall", "unrelated", "en", put(queries, f"s{n}", 40 + n, 1), memory))
        base = put(passages, f"d{n}", 80 + n, 0.2)
        pairs.append(LabelledPair("dedup", "same", "en", base, put(passages, f"e{n}", 80 + n, 0.2)))
        pairs.append(LabelledPair("dedup", "changed", "en", base, put(passages, f"f{n}", 80 + n, 0.6)))
        pairs.append(LabelledPair("dedup", "different", "en", base, put(passages, f"g{n}", 120 + n, 1)))
    return pairs, passages, queries


def test_a_model_with_a_large_common_part_is_parted() -> None:
    pairs, passages, queries = made_up(noise=0.6)
    raw = [float(queries[pair.a] @ passages[pair.b]) for pair in pairs if pair.label == "unrelated"]
    assert min(raw) > 0.30, "raw cosines would call everything related"
    made = calibrate("made-up", pairs, passages, queries)
    line = next(row for row in made.recall if row.similarity == 0.30)
    assert line.recall > 0.9
    assert line.precision > 0.95
    assert line.empties >= EMPTY_FLOOR - 1e-3
    update, same = (next(row for row in made.dedup if row.similarity == at) for at in (0.75, 0.85))
    assert update.same > 0.95
    assert update.changed > 0.9
    assert update.different <= UPDATE_ERROR
    assert (same.changed + same.different) / 2 <= SAME_ERROR
    assert EmbeddingSpace.from_json(made.space.to_json()).id == made.space.id


def test_two_languages_make_an_axis_and_one_makes_none() -> None:
    pairs, passages, queries = made_up(noise=0.6)
    single = calibrate("made-up", pairs, passages, queries).space
    assert not single.language_axis.any()
    # Every other pair is said in another language, which is a direction of its own.
    shift = np.random.default_rng(11).standard_normal(64).astype(np.float32) / np.float32(4)
    spoken = [replace(pair, lang="zh") if int(pair.b[1:]) % 2 else pair for pair in pairs]
    foreign = {text for pair in spoken if pair.lang == "zh" for text in (pair.a, pair.b)}
    for vectors in (passages, queries):
        vectors.update({text: vector + shift for text, vector in vectors.items() if text in foreign})
    space = calibrate("made-up", spoken, passages, queries).space
    assert abs(float(space.language_axis @ shift)) / np.linalg.norm(shift) > 0.9
    assert abs(float(space.language_axis @ space.asking)) < 1e-4
    assert np.linalg.norm(space.asking) == pytest.approx(ASKING, abs=1e-3)


def test_the_query_map_learns_what_the_pairs_say_in_other_words() -> None:
    pairs, passages, queries = made_up(noise=0.6)
    # Every question has, beside its own, a direction that its memory has not, and the memory another one.
    asked, answered = (np.random.default_rng(n).standard_normal(64).astype(np.float32) / 8 for n in (21, 22))
    related = [pair for pair in pairs if pair.label == "related"]
    for n, pair in enumerate(related):
        queries[pair.a] = queries[pair.a] + np.float32(2 if n % 2 else -2) * asked
        passages[pair.b] = passages[pair.b] + np.float32(2 if n % 2 else -2) * answered
    space = calibrate("made-up", pairs, passages, queries).space
    plain = replace(space, query_reads=space.query_reads[:0], query_writes=space.query_writes[:0])
    near = {
        name: np.mean([one.query(queries[pair.a]) @ one.passage(passages[pair.b]) for pair in related])
        for name, one in (("mapped", space), ("plain", plain))
    }
    assert near["mapped"] > near["plain"] + 0.02


def test_a_stricter_line_keeps_fewer() -> None:
    made = calibrate("made-up", *made_up(noise=1.0))
    for rows, shares in ((made.recall, ("recall",)), (made.dedup, ("same", "changed", "different"))):
        for share in shares:
            values = [getattr(row, share) for row in rows]
            assert values == sorted(values, reverse=True)
    empties = [row.empties for row in made.recall]
    assert empties == sorted(empties)


def test_a_model_that_parts_nothing_is_refused() -> None:
    pairs, passages, queries = made_up(noise=1.0)
    rng = np.random.default_rng(9)
    for vectors in (passages, queries):
        for text in vectors:
            vectors[text] = rng.standard_normal(64).astype(np.float32)
    with pytest.raises(ValueError, match="does not part"):
        calibrate("random", pairs, passages, queries)


@pytest.mark.parametrize("label", ["related", "unrelated", "same", "changed", "different"])
def test_too_few_pairs_are_refused(label: str) -> None:
    pairs, passages, queries = made_up(noise=1.0)
    kept = [pair for pair in pairs if pair.label != label] + [pair for pair in pairs if pair.label == label][:5]
    with pytest.raises(ValueError, match=f"5 pairs are {label}"):
        calibrate("few", kept, passages, queries)


def test_queries_that_relate_to_nothing_are_needed() -> None:
    pairs, passages, queries = made_up(noise=1.0)
    tame = [replace(pair, a=pair.a.replace("s", "q")) if pair.label == "unrelated" else pair for pair in pairs]
    with pytest.raises(ValueError, match="0 queries relate to nothing"):
        calibrate("tame", tame, passages, queries)


# --- the bundled model ---


async def test_shipped_space_is_what_the_shipped_pairs_give() -> None:
    embedder = BundledEmbedder()
    texts = texts_of(PAIRS)
    try:
        passages = dict(
            zip(texts.passages, await embedder.embed_passages([told(text) for text in texts.passages]), strict=True)
        )
        queries = {text: await embedder.embed_query(text) for text in texts.queries}
    finally:
        await embedder.close()
    made = calibrate(MODEL, PAIRS, passages, queries).space
    shipped = bundled_space()
    assert (shipped.model, shipped.dim) == (MODEL, DIM)
    # Not the id: the last bits of the model differ between processors.
    for name in ("passage_mean", "query_mean", "language_axis", "asking"):
        assert np.abs(getattr(made, name) - getattr(shipped, name)).max() < 1e-3, name
    maps = [one.query_reads.T @ one.query_writes for one in (made, shipped)]
    assert np.abs(maps[0] - maps[1]).max() < 0.02
    for ours, theirs in ((made.recall_knots, shipped.recall_knots), (made.dedup_knots, shipped.dedup_knots)):
        assert np.abs(np.array(ours) - np.array(theirs)).max() < 0.02


async def test_scale_of_the_bundled_model_on_sentences_of_the_requirements() -> None:
    space, embedder = bundled_space(), BundledEmbedder()
    try:

        async def recall(query: str, memory: str) -> float:
            vector = space.query(await embedder.embed_query(query))
            cosine = vector @ space.passage((await embedder.embed_passages([told(memory)]))[0])
            return float(space.recall_similarity(cosine, of_self=of_self(query)))

        async def dedup(one: str, other: str) -> float:
            a, b = (space.passage(vector) for vector in await embedder.embed_passages([told(one), told(other)]))
            return float(space.dedup_similarity(a @ b))

        assert await recall("where do I live", "User lives in Berlin") > 0.30
        assert await recall("what is the weather today", "User lives in Berlin") < 0.30
        assert await recall("我住在哪", "User lives in Berlin") > 0.30
        for memory in ("我用 MySQL 8", "用户使用 MySQL 8"):
            assert await recall("今天天气怎么样", memory) < 0.30
        assert await dedup("我有两个孩子", "我有两个小孩") >= 0.85
        assert 0.75 <= await dedup("我用 MySQL 8", "我用 MySQL 9") < 0.85
        assert await dedup("用户的项目是 DocMind", "用户喜欢简洁回答") < 0.60
    finally:
        await embedder.close()
