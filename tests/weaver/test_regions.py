from __future__ import annotations

import pytest
from weaver.sources.regions import Region, check_names, is_marker, parse


def lines(*parts: str) -> list[str]:
    return [
        f"// LITERALINCLUDE {part.upper()}: {name}" if name else part
        for part, _, name in (text.partition(" ") for text in parts)
    ]


def test_region_is_what_stands_between_its_markers() -> None:
    regions, faults = parse("a.cpp", lines("start one-region", "code;", "", "code;", "end one-region"))
    assert regions == [Region("one-region", "a.cpp", marker=1, first=2, last=4)]
    assert not faults


def test_blank_lines_at_the_ends_are_not_shown() -> None:
    regions, _ = parse("a.cpp", lines("start one-region", "", "code;", "", "end one-region"))
    assert (regions[0].first, regions[0].last) == (3, 3)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (["start one-region", "code;"], 1, "region `one-region` has no END"),
        (["code;", "end one-region"], 2, "END of region `one-region`, but no region is open"),
        (["start one-region", "end one-region"], 1, "region `one-region` is empty"),
        (["start one-region", "", "end one-region"], 1, "region `one-region` is empty"),
        (
            ["start one-region", "start two-regions", "code;", "end two-regions", "end one-region"],
            2,
            "region `two-regions` starts inside region `one-region` of line 1",
        ),
        (
            ["start one-region", "start two-regions", "code;", "end one-region", "end two-regions"],
            2,
            "region `two-regions` starts inside region `one-region` of line 1",
        ),
        (["start Region", "code;", "end Region"], 1, "region name `Region` is not kebab-case"),
        (["start region", "code;", "end region"], 1, "region name `region` is not kebab-case of two words"),
        (
            ["start one-region", "code;", "end two-regions", "end one-region"],
            3,
            "END of region `two-regions`, but region `one-region` of line 1 is open",
        ),
    ],
)
def test_faulty_markers_are_named_with_their_line(text: list[str], line: int, message: str) -> None:
    regions, faults = parse("a.cpp", lines(*text))
    assert [(fault.line, message in fault.message) for fault in faults][:1] == [(line, True)]
    assert all(region.name != "two-regions" for region in regions)


@pytest.mark.parametrize(
    "line",
    [
        "// LITERALINCLUDE STRAT: one-region",
        "// LITERALINCLUDE START one-region",
        "// literalinclude start: one-region",
        "// LITERAL INCLUDE END: one-region",
        "//LITERALINCLUDE START: one-region",
        "code;  // LITERALINCLUDE START: one-region",
        "// LITERALINCLUDE START: one-region and more",
    ],
)
def test_a_line_that_is_nearly_a_marker_is_a_fault(line: str) -> None:
    assert not is_marker(line)
    regions, faults = parse("a.cpp", [line, "code;"])
    assert not regions
    assert "malformed marker" in faults[0].message


def test_names_are_unique_and_begin_no_other() -> None:
    regions = [
        Region("copy-async", "a.cpp", 1, 2, 3),
        Region("copy-async", "b.cpp", 5, 6, 7),
        Region("copy-async-host", "c.cpp", 9, 10, 11),
        Region("stream-wait", "c.cpp", 20, 21, 22),
    ]
    found = [(fault.path, fault.line, fault.message) for fault in check_names(regions)]
    assert ("b.cpp", 5, "region `copy-async` is also marked at a.cpp:1; names are unique in the repository") in found
    assert any(path == "c.cpp" and line == 9 and "begins with that of region" in text for path, line, text in found)
    assert not any("stream" in text for _, _, text in found)
