"""Rules of every kind, for properties of tests."""

from hypothesis import strategies as st

from bendybus.domain.filters.rule import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    Rule,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)
from bendybus.domain.filters.values import Duration, Timestamp, Value

TEXT = st.text(max_size=8)
VALUES: st.SearchStrategy[Value] = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | TEXT
    | st.binary(max_size=8)
    | st.uuids()
    | st.builds(Timestamp, st.integers(0, 2**47))
    | st.builds(Duration, st.integers(-(2**63), 2**63 - 1))
)
NAMED = st.dictionaries(TEXT, VALUES, max_size=3)
MAYBE = st.none() | TEXT
FILTERS: st.SearchStrategy[Filter] = (
    st.just(TrueFilter())
    | st.just(FalseFilter())
    | st.builds(SqlFilter, TEXT, NAMED)
    | st.builds(
        CorrelationFilter,
        correlation_id=MAYBE,
        message_id=MAYBE,
        to=MAYBE,
        reply_to=MAYBE,
        label=MAYBE,
        session_id=MAYBE,
        reply_to_session_id=MAYBE,
        content_type=MAYBE,
        properties=NAMED,
    )
)
RULES = st.builds(
    Rule,
    TEXT,
    FILTERS,
    st.none() | st.builds(SqlRuleAction, TEXT, NAMED),
    st.integers(0, 2**47),
)
