"""A pool of questions and its clusters: what is read, and which stand together."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from polyhop.errors import DataError
from polyhop.methods.baselines.auto_cot import MAX_QUESTIONS, cluster_questions, k_means, tf_idf

FILMS = [f"Who directed the film {name}?" for name in ("Alien", "Jaws", "Heat")]
WARS = ["When did the war begin?", "When did the war end?"]


def written(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


# --- what is read ------------------------------------------------------------------------------------------------


def test_like_questions_stand_together(tmp_path: Path) -> None:
    pool = written(tmp_path / "pool.txt", [FILMS[0], WARS[0], FILMS[1], WARS[1], FILMS[2]])
    films, wars = cluster_questions(pool, 2)
    assert (set(films), set(wars)) == (set(FILMS), set(WARS))
    assert films == cluster_questions(pool, 2)[0]


def test_a_pool_is_lines_or_json_lines_and_nothing_but_the_question_is_looked_at(tmp_path: Path) -> None:
    rows = [json.dumps({"id": n, "question": text, "answers": ["x"]}) for n, text in enumerate(FILMS)]
    clusters = cluster_questions(written(tmp_path / "dev.jsonl", [*rows, "", *WARS, FILMS[0]]), 2)
    assert sorted(text for cluster in clusters for text in cluster) == sorted([*FILMS, *WARS])


def test_a_pool_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    pool = written(tmp_path / "pool.txt", FILMS)
    assert cluster_questions(pool, 1)
    written(tmp_path / "pool.txt", WARS)
    os.utime(pool, ns=(1, 1))
    assert set(cluster_questions(pool, 1)[0]) == set(WARS)


def test_the_pool_of_ours_has_questions_of_several_kinds() -> None:
    questions = [text for cluster in cluster_questions("", 4) for text in cluster]
    assert len(set(questions)) == len(questions) >= 24
    assert all(text.endswith("?") for text in questions)
    assert len(cluster_questions("", 4)) == 4
    assert cluster_questions("", 0) == ()


def test_a_long_file_is_read_from_its_head(tmp_path: Path) -> None:
    pool = written(tmp_path / "pool.txt", [f"Who wrote book {n}?" for n in range(MAX_QUESTIONS + 5)])
    (cluster,) = cluster_questions(pool, 1)
    assert len(cluster) == MAX_QUESTIONS
    assert f"Who wrote book {MAX_QUESTIONS}?" not in cluster


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no questions"),
        (["", " "], "no questions"),
        ([FILMS[0], '{"text": "Who?"}'], r"pool\.txt:2: .*\"question\""),
        ([FILMS[0], '{"question": null}'], r"pool\.txt:2: "),
        ([FILMS[0], "{"], r"pool\.txt:2: "),
    ],
)
def test_a_faulty_pool_is_named(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        cluster_questions(written(tmp_path / "pool.txt", lines), 2)


# --- k-means -----------------------------------------------------------------------------------------------------

POINTS = arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=st.integers(-5, 5))


@given(POINTS, st.integers(1, 6))
def test_every_row_is_in_one_cluster_the_nearest_to_its_centre_first(rows: np.ndarray, count: int) -> None:
    clusters = k_means(rows, count)
    assert sorted(row for cluster in clusters for row in cluster) == list(range(len(rows)))
    assert len(clusters) <= min(count, len(rows))
    assert [min(cluster) for cluster in clusters] == sorted(min(cluster) for cluster in clusters)
    for cluster in clusters:
        far = np.linalg.norm(rows[cluster] - rows[cluster].mean(0), axis=1)
        assert np.all(np.diff(far) >= -1e-5)


@given(POINTS, st.integers(1, 6))
def test_no_row_is_nearer_to_another_clusters_centre(rows: np.ndarray, count: int) -> None:
    clusters = k_means(rows, count)
    centres = np.array([rows[cluster].mean(0) for cluster in clusters])
    for own, cluster in enumerate(clusters):
        far = np.linalg.norm(rows[cluster][:, None] - centres, axis=2)
        assert np.all(far[:, own] <= far.min(1) + 1e-5)


def test_rows_are_of_length_one_and_rare_words_weigh_more() -> None:
    rows = tf_idf(["the cat", "the dog", "…"])
    assert np.linalg.norm(rows, axis=1).tolist() == pytest.approx([1, 1, 0])
    cat, _, the = rows[0]
    assert cat > the > 0
