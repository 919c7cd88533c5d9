"""The overload of constant-rate flows, shortened: every row holds, tables have their columns."""

from __future__ import annotations

import pytest
from tests.kit.progress import silent

from penstock_lab.experiments.ces import overload
from penstock_lab.experiments.ces.periods import Hits, error_table, hit_table


@pytest.mark.slow
def test_flows_keep_jitter_and_loss_at_three_times_the_load() -> None:
    outcome = overload.reproduce(seed=2, quick=True, out=None, progress=silent)
    assert "--quick" in outcome.setting
    assert [row.what for row in outcome.rows if row.ok is False] == []
    assert {row[0] for row in outcome.tables[0].rows} == {"flows alone", "0.5", "1", "3"}


def test_tables_have_a_row_for_each_setting() -> None:
    table = error_table(tries=2, seed=1)
    assert len(table.rows) == 20
    assert all(len(row) == len(table.header) for row in table.rows)
    assert hit_table([Hits(0.05, 0.2, 0.95, 0.84)]).rows == (("5%", "20%", "0.950", "0.840"),)
