"""The table of stubs follows the sources, in an incremental build too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository


def test_a_new_source_with_a_stub_makes_the_table_again(repository: Repository) -> None:
    conf = (repository.root / "docs/source/conf.py").read_text(encoding="utf-8")
    repository.write("docs/source/conf.py", conf + 'extensions += ["docs._ext.stub_table"]\n')
    stub = {"header": "a.h", "name": "abs_stub", "exported": True, "cpu_kernel": True, "readers": []}
    repository.write("docs/proof/stubs.json", json.dumps({"stubs": [stub]}))
    repository.write("csrc/kernels/library/structured.toml", "stubs = []\n")
    repository.add("```{stub-table} totals\n```\n")

    def filled() -> str:
        result = repository.build()
        assert result.status == 0, result.warnings
        html = (result.output / "index.html").read_text(encoding="utf-8")
        return html.partition("filled by this backend")[0].rpartition("<tr")[2]

    first = filled()
    assert filled() == first
    repository.write("csrc/kernels/new.cpp", "REGISTER_PRIVATEUSE1_DISPATCH(abs_stub, &abs_kernel);\n")
    assert "<p>0</p>" in first
    assert "<p>1</p>" in filled()
