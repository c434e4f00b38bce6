"""Statements about the rows of a table, decided by the cells: a claim and tables in, what the cells say out.

1. `source_tables` finds the tables of a source, and the rows that a text names.
2. `claim.RowClaim` reads a claim beside one table: the rows that it names, its numbers and dates, and its other words.
3. `comparisons`, `named_columns` and `sets` compare the cells with what the claim says of these rows, or of all rows.
4. `judgement.judge_rows` decides from all tables of a source.

`questions` answers `Which is cheaper, A or B?` and `Is A cheaper than B?` from the same comparisons.
"""
