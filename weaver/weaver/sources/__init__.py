"""What a source is made of, without Sphinx; but for what reads C++ by tree-sitter, with the standard library alone.

================  ======================================================================================
``regions``       marked regions, and the files that may have them; ``listing`` is what a page shows of one
``installed``     files of an installed package, and regions of them by pattern; ``headers`` reads C++ interfaces
``binding``       the digests that results are bound to
``closure``       what a set of sources cannot do without
``standalone``    the code of a listing so that it stands on its own, by the ``parts`` of its file
================  ======================================================================================
"""
