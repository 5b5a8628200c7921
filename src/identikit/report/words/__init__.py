"""The sentences of all results, in one place: a file a kind, with `summary` and `headline`.

The numbers and findings in them are fields of the results. `show`, where a function takes it,
decides how a name appears in a sentence: shortened, or set apart from right-to-left script.
"""
