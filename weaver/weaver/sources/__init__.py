"""Parses sources, independently of Sphinx; needs only the standard library, except for C++ with tree-sitter.

================  ======================================================================================
``regions``       marked regions, and the files that may have them; ``listing`` is an excerpt on a page
``installed``     files of an installed package, and regions of them by pattern; ``headers`` reads C++ interfaces
``binding``       the digests to which results are bound; ``scripts`` finds the scripts that an example runs
``closure``       what a set of sources needs
``standalone``    the code of a listing made self-contained, by the ``parts`` of its file
================  ======================================================================================
"""
