"""Measures what the pages prove: which displayed lines their examples execute, and which mutants they kill.

================  ======================================================================================
``planned``       what the pages show and run
``proof_files``   the committed results; ``measured`` decides which of them still hold, ``figures`` sums them up
``floor``         keeps the figures from falling
``sandbox``       a copy of the working tree with its own environment and build
``measure``       the command ``proof``, with ``clang``, ``probe``, ``observer`` and ``lines``
``mutate``        the command ``mutate``: ``shown`` finds mutants by ``cxx_mutants`` and ``python_mutants``,
                  ``schemata`` builds them, ``trial`` runs the examples that ``reach`` selects, ``equivalents`` has
                  the excuses, ``result`` writes the file
================  ======================================================================================
"""
