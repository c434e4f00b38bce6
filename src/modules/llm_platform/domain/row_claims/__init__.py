"""Decide claims about the rows of a table by its cells.

1. `source_tables` finds the tables of a source, and the rows that a text names.
2. `claim.RowClaim` reads a claim together with one table: the rows that it names, its numbers and dates, and its other words.
   `compound_claims` splits a claim that makes several statements.
3. `comparisons`, `named_columns` and `row_sets` compare the cells with what the claim says. `beyond_cells` detects claims that
   cells cannot decide.
4. `judgement.judge_rows` decides a claim by all tables of a source.

`questions` answers `Which is cheaper, A or B?` and `Is A cheaper than B?` with the same comparisons, and `all_rows` answers
`Is anyone under 18?`
"""
