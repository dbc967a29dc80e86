"""How far the pages prove what they show: which displayed lines their examples execute, and which mutants they kill.

================  ======================================================================================
``sandbox``       a copy of the working tree with an environment and a build of its own
``pages``         what the pages show and run
``measure``       make proof, with ``clang``, ``probe`` and ``lines``; ``floor`` keeps its figures from falling
``mutate``        make mutate: ``shown`` finds mutants by ``cxx_mutants`` and ``python_mutants``, ``schemata`` builds
                  them, ``trial`` runs what ``reach`` says, ``equivalents`` excuses, ``result`` is written
================  ======================================================================================
"""
