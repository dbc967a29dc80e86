"""The Sphinx extensions: directives, the gate, and what they write beside the pages.

===================  ===================================================================================
``repository``       what may be shown, by the configuration; ``records``, what each page shows
``literalinclude``   the strict directive of that name, with captions that say where the code stands
``whole_sources``    the files of a page, listed; ``bundles``, the same as a download with all that they need
``folded``           parts of a page that a reader unfolds; ``highlighting``, code without tags that colour nothing
``copied``           what the button of a listing copies
``interface_table``  tables checked against the interfaces of the installed package
``release_roles``    the roles for what holds for some of its releases only
``lock``             pins the text that pages show of the installed package
``transcripts``      scripts that pages run, shown as commands of the shell with their output
``console``          shell commands that are run and compared; ``console_scripts``, those that CI runs
``diagram``          pictures that take the colours of the theme
``book``             what a book, such as an EPUB, has otherwise than a site
``error_index``      every error that some page causes, found by its message
``gate``             refuses every code block that is neither included, executed nor compared
``source_pages``     one page per source file, and ``links`` to its lines
``marks``            under each listing, how much of it is executed; ``proven``, the tables of it, kept ``current``
``narrated``         the chapter that owns each file
``length``           how long a page may be
``faults``           keeps an unmended page red however often the incremental build runs
``plan``             the builder that writes down what the pages show and run
===================  ===================================================================================
"""

from __future__ import annotations

EXTENSIONS = (
    "records", "repository", "lock", "faults", "links", "folded", "highlighting", "literalinclude", "source_pages",
    "whole_sources", "release_roles", "interface_table", "error_index", "console", "diagram", "book", "gate",
    "marks", "copied", "transcripts", "bundles", "narrated", "length", "proven", "plan",
)  # fmt: skip
