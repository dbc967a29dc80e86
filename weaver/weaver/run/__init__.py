"""Runs what the pages execute.

===================  ===================================================================================
``examples``         reads the executed blocks of a page, and reports their faults
``builder``          Sphinx's doctest builder: runs every page and leaves a proof; ``prove`` is its command
``isolation``        a process per page, with ``fork_server``
``runner``           the code in that process; ``run_example`` runs the scripts of a page
``cached_compiler``  compiles each program of the examples only once
===================  ===================================================================================
"""
