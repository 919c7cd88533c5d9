"""The page of tables is made from the schemas."""

from __future__ import annotations

from pathlib import Path

from tools.tables_page import page

from penstock.pipeline.project.catalogue import CONTROL, RECORDED, TABLES, recorded_schema

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_of_tables_is_up_to_date() -> None:
    written = (ROOT / "docs" / "reference" / "tables.md").read_text()
    assert written == page(), "repeat: python tools/tables_page.py > docs/reference/tables.md"


def test_every_column_has_a_meaning_and_times_have_units() -> None:
    for table in TABLES.values():
        assert table.about.endswith(".")
        assert len(set(table.names)) == len(table.names)
        for column in table.columns:
            assert column.about, (table.name, column.name)
            if column.name.endswith("_us") or column.name in ("ts", "bytes", "cost"):
                assert column.unit, (table.name, column.name)


def test_files_of_nodes_and_bronze_tables_agree() -> None:
    from penstock.node.channels.poll_log import POLLS, SUBSCRIPTIONS  # noqa: PLC0415  # reads pyarrow
    from penstock.node.observe.recorder import TRACES  # noqa: PLC0415
    from penstock.node.store.parquet import EVENTS, arrow  # noqa: PLC0415

    names = {"string": "string", "int64": "bigint", "int32": "int", "bool": "boolean", "binary": "binary"}
    for kind in (EVENTS, POLLS, SUBSCRIPTIONS, TRACES):
        written = {one.name: str(one.type) for one in kind.schema(arrow())}
        read = {one.name: one.dataType.simpleString() for one in recorded_schema(kind.name)}
        assert {name: names.get(type_, "map<string,string>") for name, type_ in written.items()} == read
        assert set(written) < set(TABLES[kind.name].names)
    assert set(RECORDED) == {"events", "polls", "subscriptions", "traces"}
    assert set(CONTROL) < set(TABLES)
