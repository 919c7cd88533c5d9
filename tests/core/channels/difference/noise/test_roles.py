"""Rows of one place are learned together; new words, prices and single failures are told."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.core.channels.difference import Content, Rules
from penstock.core.channels.difference.noise import heat
from penstock.core.channels.difference.noise.memory import Memory, bounded
from tests.kit.page_looks import HOUR, Subscription, html, word


def rows(*lines: str) -> Content:
    return html(f"<main><h1>Board</h1><ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul></main>")


def lots(*free: int) -> Content:
    return rows(*(f"P{n}: {f'{count} free' if count else 'full'}" for n, count in enumerate(free, 1)))


def watching(first: Content) -> Subscription:
    return Subscription(first, first, first)


def test_states_that_rows_take_turns_in_are_told_three_times_at_most_and_then_muted_for_all_rows() -> None:
    watched = watching(lots(0, 20, 40, 60))
    told = [
        bool(watched.look(each))
        for each in (lots(3, 20, 40, 60), lots(0, 20, 40, 60), lots(0, 20, 0, 60), lots(7, 20, 40, 0))
    ]
    assert sum(told) <= 2
    assert watched.look(lots(5, 0, 0, 0)) == []
    assert watched.look(rows("P1: 5 free", "P2: 20 free", "P3: 40 free", "P4: 60 free")) == []
    assert any(
        "closed" in line
        for line in watched.look(rows("P1: 5 free", "P2: closed", "P3: 40 free", "P4: 60 free"))
    )
    places = [each for each in watched.versions.muted(now_us=watched.now_us) if each.part == "known words"]
    assert [each.place for each in places] == ["/main/ul/li"]
    assert "had stood there before" in places[0].evidence


def test_a_person_hears_of_known_words_again_after_unmuting_their_place() -> None:
    watched = watching(lots(0, 20, 40, 60))
    for n in range(4):
        watched.look(lots(0, 20, 40 * (n % 2), 60))
    assert watched.look(lots(9, 20, 40, 60)) == []
    watched.versions.unmute("/main/ul/li")
    assert watched.versions.muted(now_us=watched.now_us) == []
    assert watched.look(lots(9, 0, 40, 60)) != []


def test_a_list_of_the_next_few_is_told_a_few_times_only() -> None:
    names = ("Harbour", "Airport", "Museum", "Stadium")

    def buses(minute: int) -> Content:
        waits = sorted(((13 * n - minute) % (17 + 6 * n), name) for n, name in enumerate(names))
        return rows(*(f"{name}: {wait} min" for wait, name in waits[:2]))

    watched = watching(buses(0))
    told = [bool(watched.look(buses(15 * n))) for n in range(1, 60)]
    assert sum(told) <= 4
    assert not any(told[20:])


def test_rows_that_differ_in_numbers_only_come_and_go_silently_from_the_second_on() -> None:
    def calls(last: int) -> Content:
        return rows(*(f"call {4_000 + 37 * n}, {n % 7 + 2} vehicles" for n in range(last, last - 4, -1)))

    watched = watching(calls(10))
    assert watched.look(calls(11), later_us=3 * HOUR) != []
    assert [watched.look(calls(12 + n), later_us=3 * HOUR) for n in range(8)] == [[]] * 8


def test_a_status_page_tells_two_failures_and_both_recoveries() -> None:
    def status(**down: str) -> Content:
        return rows(*(f"{name}: {down.get(name, 'operational')}" for name in ("Mail", "Web", "Files")))

    watched = watching(status())
    for name in ("Mail", "Web"):
        assert watched.look(status(**{name: "down"})) == [f"-{name}: operational", f"+{name}: down"]
        assert watched.look(status()) == [f"-{name}: down", f"+{name}: operational"]


@pytest.mark.parametrize("row", ["Release 3.2.{}", "Lamp EUR 2{}"])
def test_rows_with_a_version_or_a_price_are_never_known_words(row: str) -> None:
    watched = watching(rows(*(row.format(n) for n in (1, 2, 3))))
    for n in range(4, 9):
        assert watched.look(rows(*(row.format(k) for k in range(1, n + 1)))) == [f"+{row.format(n)}"], n


def test_numbers_of_one_column_that_move_at_different_looks_are_muted_at_the_third() -> None:
    def table(*counts: int) -> Content:
        cells = "".join(f"<tr><td>{word(n)}<td>{count}<td>9{n}" for n, count in enumerate(counts))
        return html(f"<table>{cells}</table>")

    watched = watching(table(1, 2, 3, 4))
    assert watched.look(table(2, 2, 3, 4)) != []
    assert watched.look(table(2, 3, 3, 4)) != []
    assert watched.look(table(2, 3, 4, 4)) == []
    muted = watched.versions.muted(now_us=watched.now_us)
    assert any("in this line and others like it" in each.evidence for each in muted)


def test_rows_are_paired_by_the_name_they_begin_with() -> None:
    watched = watching(rows("M1: idle", "M2: runs at 30", "M3: runs at 40"))
    assert watched.look(rows("M1: runs at 30", "M2: idle", "M3: runs at 40")) == [
        "-M1: idle",
        "-M2: runs at 30",
        "+M1: runs at 30",
        "+M2: idle",
    ]


def test_wordings_are_forgotten_after_a_day_and_bounded() -> None:
    watched = watching(lots(0, 20, 40, 60))
    watched.look(rows("P1: closed", "P2: 20 free", "P3: 40 free", "P4: 60 free"))
    memory = watched.versions.state().memory
    assert memory.wordings
    many = dict.fromkeys(range(2 * limits.NOISE_WORDINGS), 1)
    kept = bounded(Memory(wordings=many, roles={f"/{n}": heat.COLD for n in range(2 * limits.NOISE_PLACES)}))
    assert list(kept.wordings) == list(many)[-limits.NOISE_WORDINGS :]
    assert len(kept.roles) == limits.NOISE_PLACES


def test_roles_are_not_used_if_a_watcher_wants_to_hear_of_what_rotates() -> None:
    rules = Rules(noise=("clocks",))
    watched = Subscription(*[lots(0, 20, 40, 60)] * 3, rules=rules)
    told = [watched.look(lots(n % 2, 20, 40, 60)) for n in range(1, 12)]
    assert all(told)


def test_a_word_in_the_place_of_a_count_that_moves_is_told() -> None:
    watched = watching(rows("Places left: 12", "Doors open at 19:00"))
    assert watched.look(rows("Places left: 11", "Doors open at 19:00")) != []
    assert watched.look(rows("Places left: 9", "Doors open at 19:00")) == []
    assert watched.look(rows("Places left: none", "Doors open at 19:00")) == [
        "-Places left: 11",
        "+Places left: none",
    ]
