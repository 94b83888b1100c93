"""Comparisons of two things by any measure: decided by values, and never by the order in which anything is named."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from polyhop import Pipeline
from polyhop.lm.pocket.reading import values
from polyhop.lm.pocket.reading.answer import UNKNOWN, read_path, solve
from polyhop.lm.pocket.reading.compare import compare
from polyhop.lm.pocket.reading.comparison import canonical, find_comparison
from polyhop.lm.pocket.reading.judge import sufficiency
from polyhop.lm.pocket.reading.passage import parse_passage
from polyhop.lm.pocket.reading.quantities import find_quantities
from polyhop.lm.pocket.reading.question import parse_question
from polyhop.lm.pocket.reading.weighing import best_answer
from polyhop.lm.pocket.tasks import do
from polyhop.types import Passage


def passages(*texts: str) -> list[Passage]:
    """A passage per "title: text"."""
    rows = (text.partition(": ") for text in texts)
    return [Passage(title, title, text) for title, _, text in rows]


PEOPLE = passages(
    "Priya Raman: Priya Raman leads the Ledgerline team. She joined Nordlys in 2019 and lives in Malmö.",
    "Tomas Lindqvist: Tomas Lindqvist writes firmware. Born in 1988, he joined Nordlys in 2017.",
)
BUOYS = passages(
    "Buoys: The Skua is a small buoy. It weighs 900 g and is rated to 300 m. "
    "The Tern weighs 1.4 kg and is rated to 1.2 km.",
    "Offices: Our Bergen office opened in March 1998. "
    "The Malmö office opened in 2000 and has two dozen desks, Bergen 18.",
    "Prices: Plan: Basic; Monthly fee: €12; Support: 2 days.\nPlan: Extra; Monthly fee: €9.50; Support: 36 hours.",
    "Terms: The pump's warranty is 18 months, that of the heater two years. The audit is due on 3 May 2024, "
    "the fire drill on 2024-04-28.",
    "Bids: Keswell Bakers 8,400 a year, Tindall's Kitchen 8,900. Laps: Heron 6:41.8, Wren 7:02.3.",
    "Boards: Lee and Reed sat for 3 and 5 years respectively; others for 4 and 6 respectively.",
    "Doors: The museum opens at 9:30 am, the library at 8 am. The gate closes at 17:00.",
    "Teams: Team: Heron; Engineers: 7; Lead: Ann Lee.\nTeam: Wren; Engineers: 12; Lead: Ida Kuhn.",
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who joined Nordlys first, Priya Raman or Tomas Lindqvist?", "Tomas Lindqvist"),
        ("Who has been with Nordlys longer, Priya Raman or Tomas Lindqvist?", "Tomas Lindqvist"),
        ("Which buoy is rated to greater depth, the Skua or the Tern?", "Tern"),
        ("Which weighs more, the Skua or the Tern?", "Tern"),
        ("Is the Skua or the Tern lighter?", "Skua"),
        ("Which office opened earlier, Malmö or Bergen?", "Bergen"),
        ("Of Malmö and Bergen, which office has more desks?", "Malmö"),
        ("Which plan costs less, Basic or Extra?", "Extra"),
        ("Which plan is more expensive: Basic or Extra?", "Basic"),
        ("Whose support is quicker, that of Basic or that of Extra?", "Extra"),
        ("Which warranty is shorter, that of the pump or that of the heater?", "pump"),
        ("Is the audit or the fire drill due sooner?", "fire drill"),
        ("Which opens earlier, the museum or the library?", "library"),
        ("Which team has more engineers, Heron or Wren?", "Wren"),
        ("Between Heron and Wren, who has fewer engineers?", "Heron"),
        ("Who sat for longer, Lee or Reed?", "Reed"),
        ("Which bidder for the café offered less, Keswell Bakers or Tindall's Kitchen?", "Keswell Bakers"),
    ],
)
def test_values_decide_whatever_is_named_first(question: str, answer: str) -> None:
    corpus = [*PEOPLE, *BUOYS]
    for asked in (question, _swapped(question)):
        for pages in (corpus, corpus[::-1]):
            assert solve(asked, [parse_passage(page) for page in pages]).answer == answer, asked


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Did Priya Raman join Nordlys before Tomas Lindqvist?", "no"),
        ("Did Tomas Lindqvist join Nordlys before Priya Raman?", "yes"),
        ("Did Priya Raman join Nordlys after Tomas Lindqvist?", "yes"),
        ("Is the Skua heavier than the Tern?", "no"),
        ("Is the Tern heavier than the Skua?", "yes"),
        ("Does Basic cost more than Extra?", "yes"),
        ("Is Extra cheaper than Basic?", "yes"),
        ("Do Heron and Wren have the same number of engineers?", "no"),
    ],
)
def test_a_statement_about_two_values_is_true_or_false(question: str, answer: str) -> None:
    assert solve(question, [parse_passage(page) for page in (*PEOPLE, *BUOYS)]).answer == answer


@pytest.mark.parametrize(
    ("texts", "question", "answer"),
    [
        (("Hubs: The Otter weighs 2 kg. The Stoat weighs 2,000 g.",), "Is the Otter or the Stoat heavier?", "both"),
        (("Hubs: The Otter costs €40. The Stoat costs $45.",), "Which costs less, the Otter or the Stoat?", None),
        (("Hubs: The Otter weighs 2 kg. The Stoat is green.",), "Is the Otter heavier than the Stoat?", None),
        (("Towns: Ostwik and Larn are towns in Norland.",), "Is Ostwik further north than Larn?", None),
        (("Staff: Ann Lee joined in 2019. Ida Kuhn joined in 2019.",), "Who joined first, Ann Lee or Ida Kuhn?", None),
        (("Ann Lee: Ann Lee died on 16 May 2016.", "Tom Reed: Tom Reed died on 3 June 1950."),
         "Who lived longer, Ann Lee or Tom Reed?", None),
    ],
)  # fmt: skip
def test_a_draw_and_what_cannot_be_compared_are_said(texts: tuple[str, ...], question: str, answer: str | None) -> None:
    solution = solve(question, [parse_passage(page) for page in passages(*texts)])
    assert solution.answer == answer


DEPOTS = [
    Passage("depots", "Depots",
            "The north depot has 14 forklifts and 3 vans. The south depot has 9 forklifts and 5 vans.",
            metadata={"source": "depots.md"}),
    Passage("inns", "Inns", "The Swan has 24 rooms. The Crown has 31 rooms. The Swan is open 9:00-17:00, the Crown "
            "10:30-17:30.", metadata={"source": "inns.md"}),
    Passage("jobs", "Jobs", "The harbour job weighs 9,000 kg and is worth £40,000. The bridge job weighs 700 kg and is "
            "worth £65,000.", metadata={"source": "jobs.md"}),
    Passage("orders", "Orders", "order: T-1; customer: Hotel Krona; pieces: 44; ordered: 2024-09-05; value GBP: 900. "
            "order: T-2; customer: Larn School; pieces: 31; ordered: 2024-09-18; value GBP: 1283.40. "
            "order: T-3; customer: Hotel Aster; pieces: 12; ordered: 2024-09-01; value GBP: 1665.",
            metadata={"source": "orders.csv"}),
    Passage("post", "Post", "Larn Freight delivers in nine working days. Ostwik Cargo delivers in ten days.",
            metadata={"source": "post.md"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which has more vans, the north depot or the south depot?", "south depot"),
        ("Which has more forklifts, the north depot or the south depot?", "north depot"),
        ("Which has more drivers, the north depot or the south depot?", UNKNOWN),
        ("Which has more bedrooms, the Swan or the Crown?", "Crown"),
        ("Which closes later, the Swan or the Crown?", "Crown"),
        ("Which is open longer, the Swan or the Crown?", "Swan"),
        ("Which is the bigger job in pounds, the harbour job or the bridge job?", "bridge job"),
        ("Which is the bigger job in kilos, the harbour job or the bridge job?", "harbour job"),
        ("Whose order is worth more, that of Hotel Krona or that of Larn School?", "Larn School"),
        ("Who delivers faster, Larn Freight or Ostwik Cargo?", "Ostwik Cargo"),
    ],
)
def test_only_what_is_asked_for_is_counted_and_measured(question: str, answer: str) -> None:
    for asked in (question, _swapped(question)):
        assert do("answer.read", {"question": canonical(asked), "passages": DEPOTS})["answer"] == answer, asked


STAFF = [
    Passage("staff", "Staff", "Ann Lee joined in 2019. Ida Kuhn joined in 2019. Tom Reed joined in 2017.",
            metadata={"source": "staff.md"}),
    Passage("buoys", "Buoys", "The Skua weighs 45 kg and the Tern 38,000 g. The Gull is rated to 1.2 km.",
            metadata={"source": "buoys.md"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "answer", "rationale"),
    [
        ("Who joined first, Ann Lee or Ida Kuhn?", "both", "Ann Lee: 2019; Ida Kuhn: 2019"),
        ("Who joined first, Ann Lee or Tom Reed?", "Tom Reed", "Ann Lee: 2019; Tom Reed: 2017"),
        ("Which costs more, the Skua or the Tern?", UNKNOWN, "Skua: no value found; Tern: no value found"),
        ("Which weighs more, the Skua or the Gull?", UNKNOWN, "Gull: no value found; Skua: no value found"),
    ],
)
def test_of_own_documents_a_draw_and_missing_values_are_said(question: str, answer: str, rationale: str) -> None:
    for asked in (question, _swapped(question)):
        found = do("answer.read", {"question": canonical(asked), "passages": STAFF})
        assert (found["answer"], found["rationale"]) == (answer, rationale)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Compare {0} with {1}: which has more engineers?", "Wren"),
        ("Which has more engineers, {0} vs. {1}?", "Wren"),
        ("Which has more engineers: {0} versus {1}?", "Wren"),
        ("{0} / {1}: which has more engineers?", "Wren"),
        ("Which is the smaller of {0} and {1}?", "Heron"),
        ("Which of the teams among {0} and {1} is larger?", "Wren"),
    ],
)
def test_two_things_are_found_however_they_are_put_side_by_side(question: str, answer: str) -> None:
    for names in (("Heron", "Wren"), ("Wren", "Heron")):
        asked = question.format(*names)
        assert solve(asked, [parse_passage(page) for page in BUOYS]).answer == answer, asked


@pytest.mark.parametrize("ending", [" or fewer?", ", or not?", ", or does it have fewer?", " or the other way round?"])
def test_the_other_answer_at_the_end_of_a_question_changes_nothing(ending: str) -> None:
    pages = [parse_passage(page) for page in BUOYS]
    assert solve(f"Does Wren have more engineers than Heron{ending}", pages).answer == "yes"
    assert solve(f"Does Heron have more engineers than Wren{ending}", pages).answer == "no"


SHELLEY = (
    "Percy Shelley: Percy Shelley was a poet, born in Sussex in 1792. He drowned and died in 1822.",
    "Mary Godwin: Mary Godwin was a novelist, born in 1797. In 1816 she married Percy Shelley. She died in 1851.",
    "Ada Byron: Ada Byron was a poet, born in London in 1788. She died in 1824.",
)


@pytest.mark.parametrize(
    ("question", "texts", "answer"),
    [
        ("Who died first, Ada Byron or Percy Shelley?", SHELLEY, "Percy Shelley"),
        ("Who died first, Ada Byron or Percy Shelley?", SHELLEY[1:], None),
        ("Who was born first, Ada Byron or Percy Shelley?", SHELLEY[1:], None),
        ("Were Ada Byron and Percy Shelley from the same city?", SHELLEY, None),
        ("Which actor is known from both Ada Byron and Percy Shelley?", SHELLEY, None),
    ],
)
def test_a_date_of_something_or_someone_else_decides_nothing(
    question: str, texts: tuple[str, ...], answer: str | None
) -> None:
    parsed = parse_question(question)
    assert parsed.comparison
    pages = [parse_passage(page) for page in passages(*texts)]
    assert compare(parsed, parsed.comparison, pages).answer == answer


def test_a_path_without_one_of_two_dates_is_not_enough() -> None:
    pages = passages(*SHELLEY)
    question = "Who died first, Ada Byron or Percy Shelley?"
    assert sufficiency(read_path(question, [pages[2], pages[0]])) > 0.5
    assert sufficiency(read_path(question, [pages[2], pages[1]])) == 0.0


def test_a_question_and_the_same_with_its_names_swapped_are_read_alike() -> None:
    for question in ("What is wider, our gate or the drilling rig?", "Who is older, Ann Lee or Tom Reed?"):
        assert canonical(question) == canonical(_swapped(question))
    ordered = "Is the mill older than the barn?"
    assert canonical(ordered) == ordered


@pytest.mark.parametrize(
    ("one", "other"),
    [("Ida Kuhn", "the founders of Lantern"), ("Ost Hall", "the mill at Larn"), ("Zed", "our cook from Ost")],
)
@pytest.mark.parametrize(
    "question", ["Who signs first, {} or {}?", "Did {} or {} sign first?", "{} or {}: who signs first?"]
)
def test_a_thing_may_be_described_by_a_name(question: str, one: str, other: str) -> None:
    for asked in (question.format(one, other), question.format(other, one)):
        found = find_comparison(asked, yes_or_no=False)
        assert found is not None
        assert set(found.options) == {one, other.split(" ", 1)[1]}
    assert canonical(question.format(one, other)) == canonical(question.format(other, one))


def test_a_measure_of_two_names_is_no_part_of_the_first() -> None:
    found = find_comparison("Is the population of Larn or Ost Hill larger?", yes_or_no=False)
    assert found is not None
    assert found.options == ("Larn", "Ost Hill")


def test_nothing_is_known_of_two_things_without_passages() -> None:
    for question in ("Who is older, Ann Lee or Ida Kuhn?", "Who is older, Ida Kuhn or Ann Lee?"):
        assert do("answer.direct", {"question": question})["answer"] == "unknown"


@pytest.mark.parametrize(
    ("question", "options", "how", "what"),
    [
        ("Does linen or wool take longer to arrive?", ("linen", "wool"), "choice", "value"),
        ("Is the blue valve or the red valve heavier?", ("blue valve", "red valve"), "choice", "value"),
        ("Lee or Reed: who has served longer?", ("Lee", "Reed"), "choice", "value"),
        ("Which lease ends first, that of the mill or that of the barn?", ("mill", "barn"), "choice", "value"),
        ("Whose contract runs longer, Lee's or Reed's?", ("Lee", "Reed"), "choice", "value"),
        ("Is the ride end to end shorter on line 2 or on line 8?", ("line 2", "line 8"), "choice", "value"),
        ("Do we have more bats or more moles at the moment?", ("bats", "moles"), "choice", "value"),
        ("Does a day of the mill or of the barn cost more?", ("mill", "barn"), "choice", "value"),
        ("Does a day of the barn or of the mill cost more?", ("barn", "mill"), "choice", "value"),
        ("Did more people come (on foot) from Larn or from Ost Hill?", ("Larn", "Ost Hill"), "choice", "value"),
        ("Who drove a lap faster in 2023, Ann Lee or Tom Reed?", ("Ann Lee", "Tom Reed"), "choice", "value"),
        ("Do the baker and the miller live in the same town?", ("baker", "miller"), "same", "name"),
        ("Is the mill older than the barn?", ("mill", "barn"), "truth", "birth date"),
    ],
)
def test_things_without_capitals_are_found(question: str, options: tuple[str, str], how: str, what: str) -> None:
    found = find_comparison(question, yes_or_no=question.split()[0] in ("Is", "Do", "Does"))
    assert found is not None
    assert (found.options, found.how, found.what) == (options, how, what)


@pytest.mark.parametrize(
    "question",
    [
        "Who leads the team?",
        "Is soap or tea included?",
        "When does the shop open?",
        "How long do I wait between stopping the one pump and the other?",
        "How many miles are there between Larn and Ost Hill?",
    ],
)
def test_other_questions_compare_no_values(question: str) -> None:
    found = find_comparison(question, yes_or_no=question.startswith("Is"))
    assert found is None or found.how == "fits"


def test_more_than_a_word_of_the_direction_counts() -> None:
    assert find_comparison("Which is less expensive, Ost or Larn?", yes_or_no=False).wins["money"] == -1  # type: ignore[union-attr]
    assert find_comparison("Who has been here longer, Lee or Reed?", yes_or_no=False).wins["date"] == -1  # type: ignore[union-attr]
    assert find_comparison("Whose lease runs longer, Lee or Reed?", yes_or_no=False).wins["date"] == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("1.2 million people", "number", 1_200_000.0),
        ("twenty-five kg", "mass", 25_000.0),
        ("half a dozen", "number", 6.0),
        ("3 h 05 min", "time", 11_100.0),
        ("1 year and 6 months", "time", 31_557_600.0 + 6 * 2_629_800),
        ("£3.5m", "gbp", 3_500_000.0),
        ("12 500 km", "length", 12_500_000.0),
        ("-20 °C", "temperature", -20.0),
        ("5.30 pm", "clock", 1050.0),
        ("30 %", "percent", 30.0),
        ("30 per cent", "percent", 30.0),
        ("40 square metres", "area", 40.0),
        ("three full weeks", "time", 3 * 604_800.0),
        ("ten working days", "time", 14 * 86_400.0),
    ],
)
def test_quantities_are_converted(text: str, dimension: str, value: float) -> None:
    assert [quantity[2:4] for quantity in find_quantities(text)] == [(dimension, value)]


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("from 9:12 to 10:00", 48),
        ("open 9:00-17:00", 480),
        ("between 19:04 and 19:30", 26),
        ("22:00 – 06:00", 480),
        ("9 am until 5:30 pm", 510),
    ],
)
def test_a_period_is_a_time_taken_beside_two_times_of_day(text: str, minutes: int) -> None:
    quantities = find_quantities(text)
    assert [quantity.dimension for quantity in quantities] == ["clock", "time", "clock"]
    assert quantities[1].value == 60 * minutes


def test_two_times_of_day_are_no_period() -> None:
    assert {quantity.dimension for quantity in find_quantities("at 9:00 and 11:30, or 10:00, 12:00")} == {"clock"}


def test_a_name_with_a_number_is_no_quantity() -> None:
    assert not [quantity for quantity in find_quantities("T-2207 and PM-31") if quantity.dimension != "number"]


# --- the order of mention, over generated cases ---------------------------------------------------------------------


class Measure(NamedTuple):
    """A sentence and a table's column that state a value, phrasings of the question, the sign of the winning value, and
    values from the least to the greatest."""

    sentence: str
    column: str
    phrasings: tuple[str, ...]
    sign: int
    values: tuple[str, ...]


MEASURES = (
    Measure("{0} joined the company in {1}.", "Joined",
            ("Who joined first, {0} or {1}?", "Did {0} or {1} join earlier?", "{0} vs. {1}: who joined first?"), -1,
            ("2009", "May 2012", "3 June 2012", "2017-05-03", "2 July 2019")),
    Measure("{0} weighs {1}.", "Weight", ("Which weighs more, {0} or {1}?", "Is {0} or {1} heavier?"), 1,
            ("80 g", "0.9 kg", "1,400 g", "two kilos", "0.5 t")),
    Measure("A ticket for {0} costs {1}.", "Price", ("Which costs less, {0} or {1}?", "Is {0} or {1} cheaper?"), -1,
            ("€9.50", "€12", "€110", "EUR 1,200", "3.5 million euros")),
    Measure("{0} comes with a warranty of {1}.", "Warranty", ("Whose warranty is longer, {0}'s or {1}'s?",), 1,
            ("90 days", "six months", "18 months", "two years", "5 years")),
    Measure("In {0} there are {1} seats.", "Seats", ("Between {0} and {1}, which has fewer seats?",), -1,
            ("seven", "12", "two dozen", "310", "1,250")),
)  # fmt: skip
NAMES = ("Ann Lee", "Tomas Lindqvist", "Otter 3", "Otter 7", "the Blue Mill", "Zephyr", "Aster House", "Örjan Falk",
         "the miller of Larn", "the barn by Aster Lake")  # fmt: skip


def _cases(count: int) -> Iterator[tuple[str, str, list[Passage], str]]:
    """Generated questions, the same with the names swapped, passages and the answer."""
    rng = random.Random(7)
    for i in range(count):
        measure, (one, two) = MEASURES[i % len(MEASURES)], rng.sample(NAMES, 2)
        low, high = sorted(rng.sample(range(len(measure.values)), 2))
        stated = dict(zip(rng.sample([one, two], 2), (measure.values[low], measure.values[high]), strict=True))
        texts = [
            f"{measure.sentence.format(name[0].upper() + name[1:] if i % 3 else name, value)}" if i % 2
            else f"Name: {name}; {measure.column}: {value}; Note: none."
            for name, value in stated.items()
        ]  # fmt: skip
        titles = ("Notes", "More notes") if i % 4 < 2 else tuple(stated)
        stray = Passage("stray", "Stray", "The canteen opened in 1990, has 40 seats and costs €3.")
        pages = [*(Passage(title, title, text) for title, text in zip(titles, texts, strict=True)), stray]
        rng.shuffle(pages)
        phrasing = rng.choice(measure.phrasings)
        winner = list(stated)[measure.sign > 0].removeprefix("the ")
        yield phrasing.format(one, two), phrasing.format(two, one), pages, winner


def test_no_answer_depends_on_the_order_of_mention() -> None:
    for question, swapped, pages, winner in _cases(150):
        for asked in (question, swapped):
            for order in (pages, pages[::-1]):
                assert best_answer(canonical(asked), order)[0] == winner, (asked, order)


def test_no_answer_from_own_documents_depends_on_the_order_of_mention() -> None:
    for question, swapped, pages, winner in _cases(40):
        files = [Passage(page.id, page.title, page.text, metadata={"source": f"{page.id}.md"}) for page in pages]
        for asked in (question, swapped):
            assert best_answer(canonical(asked), files)[0] == winner, asked


def test_nothing_read_of_two_things_depends_on_their_order() -> None:
    """Also where no value is stated, and the answer is read or withheld."""
    for question, swapped, pages, _ in _cases(20):
        bare = [Passage(page.id, page.title, page.text.split(" in ")[0].split(":")[0]) for page in pages]
        answers = {do("answer.read", {"question": q, "passages": bare})["answer"] for q in (question, swapped)}
        assert len(answers) == 1


def _answers(method: str, question: str, swapped: str, pages: list[Passage]) -> set[str]:
    """The answers of a method to a question with its names in either order, from passages in either order."""
    with Pipeline(pages, method, "pocket") as pipeline, Pipeline(pages[::-1], method, "pocket") as reverse:
        return {each.ask(asked).text for each in (pipeline, reverse) for asked in (question, swapped)}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["one-r", "tor", "hops", "ge", "searchain", "ircot", "iter-retgen"])
def test_no_method_depends_on_the_order_of_mention(method: str) -> None:
    for question, swapped, pages, winner in _cases(10):
        assert _answers(method, question, swapped, pages) == {winner}


@pytest.mark.slow
def test_nor_does_one_that_remembers_too_little_to_answer() -> None:
    assert all(len(_answers("resp", question, swapped, pages)) == 1 for question, swapped, pages, _ in _cases(10))


def _swapped(question: str) -> str:
    found = find_comparison(question, yes_or_no=question.startswith(("Is", "Do")))
    assert found is not None
    return _exchanged(question, found.options)


def _exchanged(text: str, names: Sequence[str]) -> str:
    return text.replace(names[0], "#").replace(names[1], names[0]).replace("#", names[1])


def test_a_number_has_the_unit_of_its_column_and_a_longer_name_is_another_thing() -> None:
    boats = "Boat: Wren; Speed in knots: 24.\nBoat: Tern; Speed in knots: 29.\nLittle Wren seats 64. Wren seats 312."
    pages = [Passage("boats", "Boats", boats)]
    assert best_answer("Which is slower, Wren or Tern?", pages)[0] == "Wren"
    assert best_answer("Which is slower, Tern or Wren?", pages)[0] == "Wren"


def test_a_column_of_years_has_no_duration_and_a_small_number_is_no_year() -> None:
    puppets = (
        "Puppet: Candle; Made (year): 2021; Weight: 520.\nPuppet: Lantern; Made (year): 2019; Weight: 740.\n"
        "Puppet: Wick; Made (year): 2020; Weight: 1900."
    )
    pages = [Passage("puppets", "Puppets", puppets)]
    assert best_answer("Which is heavier, Candle or Lantern?", pages)[0] == "Lantern"
    assert best_answer("Which weighs less, Lantern or Wick?", pages)[0] == "Lantern"
    assert best_answer("Which is newer, Candle or Lantern?", pages)[0] == "Candle"


def test_what_is_stated_both_ways_decides_nothing() -> None:
    page = parse_passage(Passage("hubs", "Hubs", "Otter weighs 2 kg. Stoat weighs 3 kg."))
    other = parse_passage(Passage("hubs again", "Hubs", "Otter weighs 3 kg. Stoat weighs 2 kg."))
    parsed = parse_question("Which is heavier, the Otter or the Stoat?")
    assert parsed.comparison is not None
    assert compare(parsed, parsed.comparison, [page]).answer == "Stoat"
    assert compare(parsed, parsed.comparison, [page, other]).answer is None


def test_a_value_beside_many_others_is_less_probable() -> None:
    parsed = parse_question("Which is heavier, the Otter or the Stoat?")
    assert parsed.comparison is not None
    clear = "Otter weighs 2 kg. Stoat weighs 3 kg."
    vague = "Otter came in 1997 with 14 bolts in box 31. Stoat came in 2003 with 17 bolts in box 12."
    found = [compare(parsed, parsed.comparison, [parse_passage(Passage("1", "Hubs", text))]) for text in (clear, vague)]
    assert found[0].complete
    assert not found[1].complete
    assert found[0].probability > 0.5
    assert found[1].probability < found[0].probability


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("Which takes more people, After the Rain or Runners' Knees?", ("After the Rain", "Runners' Knees")),
        ("Which is longer, Behind the Wall or Over the Sea?", ("Behind the Wall", "Over the Sea")),
        ("Was it colder in Ost or in Larn?", ("Ost", "Larn")),
    ],
)
def test_a_name_may_begin_with_a_preposition(question: str, options: tuple[str, str]) -> None:
    found = find_comparison(question, yes_or_no=False)
    assert found is not None
    assert found.options == options


@pytest.mark.parametrize(
    ("question", "how"),
    [
        ("Which miso is saltier, barley or yellow peas?", "choice"),
        ("Which is under water, the gate or the lock?", "fits"),
        ("Who is the keeper, Ann Lee or Ida Kuhn?", "fits"),
    ],
)
def test_a_comparative_that_no_table_has_compares_numbers(question: str, how: str) -> None:
    found = find_comparison(question, yes_or_no=False)
    assert found is not None
    assert found.how == how


def test_two_values_remain_if_reading_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tickets = "Ticket: TS-876; Estimate: 6 days.\nTicket: TS-879; Estimate: 8 days."
    pages = [Passage("tickets", "Tickets", tickets, metadata={"source": "tickets.csv"})]
    monkeypatch.setattr(values, "_read", lambda question, pages, facts: [])
    assert best_answer("TS-876 and TS-879: which is estimated as the bigger job?", pages)[0] == "TS-879"


def test_a_year_before_a_thing_is_no_name() -> None:
    first, second = "repairing what was broken at Ost Mill", "2024 lab audit"
    for question in (f"Which cost more, the {second} or {first}?", f"Which cost more, {first} or the {second}?"):
        found = find_comparison(question, yes_or_no=False)
        assert found is not None
        assert set(found.options) == {first, second}


def test_two_versions_under_which_something_is_done_are_compared() -> None:
    found = find_comparison("Is more injected under version 3 or under version 4 of it?", yes_or_no=True)
    assert found is not None
    assert found.options == ("version 3", "version 4 of it")
