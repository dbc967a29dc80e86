"""How far the pages prove what they show: which displayed lines their examples execute, and which mutants they kill.

================  ======================================================================================
``sandbox``       a copy of the working tree with an environment and a build of its own
``pages``         what the pages show and run
================  ======================================================================================
"""
