"""How far the pages prove what they show: which displayed lines their examples execute, and which mutants they kill.

================  ======================================================================================
``planned``       what the pages show and run
``proof_files``   the committed results; ``measured`` says which of them still hold, ``figures`` adds them up
``floor``         keeps the figures from falling
``sandbox``       a copy of the working tree with an environment and a build of its own
``measure``       the command ``proof``, with ``clang``, ``probe``, ``observer`` and ``lines``
``mutate``        the command ``mutate``: ``shown`` finds mutants by ``cxx_mutants`` and ``python_mutants``,
                  ``schemata`` builds them, ``trial`` runs what ``reach`` says, ``equivalents`` excuses, ``result`` is
                  written
================  ======================================================================================
"""
