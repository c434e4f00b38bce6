"""Decide statements about the rows of a table by its cells.

1. `source_tables` finds the tables of a source, and the rows that a text names.
2. `claim.RowClaim` reads a claim together with one table: the rows that it names, its numbers and dates, and its other words.
3. `comparisons`, `named_columns` and `sets` compare the cells with what the claim says about these rows, or about all rows.
4. `judgement.judge_rows` decides from all tables of a source.

`questions` answers `Which is cheaper, A or B?` and `Is A cheaper than B?` from the same comparisons.
"""
