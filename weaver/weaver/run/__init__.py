"""Running what the pages execute.

===================  ===================================================================================
``examples``         reads the executed blocks of a page, and says what is wrong with them
``builder``          Sphinx's doctest builder: runs every page and leaves a proof; ``prove`` is its command
``isolation``        a process per page, with ``fork_server``
``runner``           what runs in that process; ``run_example``, the scripts that a page runs
``cached_compiler``  what examples compile is compiled once
===================  ===================================================================================
"""
