"""SQL one would write by hand, one query per policy: the rivals of `bench.spark.packing`.

Each query knows its policy, its columns and that no value is missing, and gives what `pack` gives: kept
events and digests in place, of the same types.
"""

# ruff: noqa: S608  # queries of constants

from __future__ import annotations

from typing import Final

from penstock.pipeline.tables.schemas import MARK

QUEUE: Final = "partition by patient order by ts, seq"
SO_FAR: Final = f"over ({QUEUE} rows between unbounded preceding and current row)"


def packed(marked: str, attribute: str, causes: tuple[tuple[int, str], ...]) -> str:
    """Return kept rows and digests of a query that adds `fate`: null, or the step that drops a row.

    A kept row is grouped by its own columns, so nothing wide has to be aggregated: of several ways the
    fastest one found.
    """
    runs = f"""
        select *, row_number() over ({QUEUE}) as place, sum(if(fate is null, 1, 0)) {SO_FAR} as run
        from ({marked})
    """
    return grouped(runs, attribute, causes)


def grouped(runs: str, attribute: str, causes: tuple[tuple[int, str], ...]) -> str:
    """Return kept rows and digests of a query that adds `fate`, `place` and `run`."""
    counts = ", ".join(f"count_if(fate = {number}) as c{number}" for number in range(len(causes)))
    structs = ", ".join(
        f"named_struct('level', {level}, 'position', 1, 'filter', '{name}', 'count', c{number})"
        for number, (level, name) in enumerate(causes)
    )
    none = f"cast(null as {MARK.simpleString()})"
    return f"""
        select patient, place, if(gone, 'digest', 'event') as kind,
            k_ts as ts, k_seq as seq, k_pulse as pulse, k_drift as drift, k_step as step, k_ward as ward,
            if(gone, named_struct(
                'count', n, 'from_us', from_us, 'to_us', to_us, 'seq_first', seq_first, 'seq_last', seq_last,
                'causes', filter(array({structs}), cause -> cause.count > 0),
                'attributes', array(named_struct(
                    'name', '{attribute}', 'n', n, 'total', total, 'squares', cast(null as double),
                    'least', least, 'most', most, 'first', {none}, 'last', {none},
                    'distinct', cast(null as binary), 'quantiles', cast(null as binary)))), null) as digest
        from (
            select patient, run, fate is not null as gone, min(place) as place,
                if(fate is null, ts, null) as k_ts, if(fate is null, seq, null) as k_seq,
                if(fate is null, step, null) as k_step, if(fate is null, ward, null) as k_ward,
                any_value(if(fate is null, pulse, null)) as k_pulse,
                any_value(if(fate is null, drift, null)) as k_drift,
                count(*) as n, min(ts) as from_us, max(ts) as to_us, min(seq) as seq_first,
                max(seq) as seq_last, sum({attribute}) as total, min({attribute}) as least,
                max({attribute}) as most, {counts}
            from ({runs})
            group by patient, run, fate is not null, if(fate is null, ts, null), if(fate is null, seq, null),
                if(fate is null, step, null), if(fate is null, ward, null)
        )
    """


WITHIN: Final = packed(
    "select *, if(pulse between 50 and 100, 0, null) as fate from events", "pulse", ((1, "within"),)
)

UNIQ: Final = packed(
    f"select *, if(step = lag(step) over ({QUEUE}), 0, null) as fate from events", "pulse", ((1, "uniq"),)
)

LATEST: Final = packed(
    f"""
    select *, if(count(*) over (partition by patient) - row_number() over ({QUEUE}) < 100, null, 0) as fate
    from events
    """,
    "pulse",
    ((1, "latest"),),
)

_BAND: Final = """
    select patient, ts, seq, pulse, drift, step, ward, place + 1 as place, verdict
    from (
        select patient, posexplode(arrays_zip(queue, verdicts)) as (place, row)
        from (
            select patient, queue, aggregate(
                queue,
                named_struct('held', cast(null as double), 'out', cast(array() as array<boolean>)),
                (state, event) -> if(coalesce(abs(event.drift - state.held) < 5, false),
                    named_struct('held', state.held, 'out', array_append(state.out, true)),
                    named_struct('held', event.drift, 'out', array_append(state.out, false))),
                state -> state.out) as verdicts
            from (
                select patient,
                    sort_array(collect_list(struct(ts, seq, pulse, drift, step, ward))) as queue
                from events group by patient
            )
        )
    ) lateral view inline(array(row.queue)) as ts, seq, pulse, drift, step, ward
      lateral view inline(array(named_struct('verdict', row.verdicts))) as verdict
"""
"""The dead band of 5 over `drift`: collects each queue into an array, folds it, and explodes it again."""

BAND: Final = packed(
    f"select * except (place, verdict), if(verdict, 0, null) as fate from ({_BAND})", "drift", ((1, "delta"),)
)

CHAIN: Final = packed(
    f"""
    select * except (early), case when early is not null then early
        when sum(if(early is null, 1, 0)) over (partition by patient) - sum(if(early is null, 1, 0)) {SO_FAR}
            >= 10 then 2 end as fate
    from (
        select * except (place, verdict), case when verdict then 0 when pulse between 50 and 100 then 1 end
            as early
        from ({_BAND})
    )
    """,
    "drift",
    ((1, "delta"), (2, "within"), (3, "latest")),
)
