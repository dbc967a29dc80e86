"""The Sphinx extensions: directives, the gate, and the files they write next to the pages.

===================  ===================================================================================
``repository``       what pages may show, by the configuration; ``records``, what each page shows
``literalinclude``   the strict directive of that name, with captions that name the source of the code
``whole_sources``    the list of a page's files; ``bundles``, the same files and their closure as a download
``folded``           parts of a page that a reader unfolds; ``highlighting``, code without tags that have no color
``copied``           what the button of a listing copies
``interface_table``  tables checked against the interfaces of the installed package
``release_roles``    the roles for statements that hold only for some of its releases
``lock``             pins the text of the installed package that pages show
``transcripts``      scripts that pages run, shown as shell commands with their output
``console``          shell commands whose output is compared; ``console_scripts``, those that CI runs
``diagram``          pictures that use the colors of the theme
``book``             how a book, such as an EPUB, differs from a site
``error_index``      every error that some page raises, indexed by its message
``gate``             refuses every code block that is neither included, executed nor compared
``source_pages``     one page per source file, and ``links`` to its lines
``marks``            under each listing, how much of it runs; ``proven``, tables of that, kept ``current``
``narrated``         the chapter that owns each file
``length``           how long a page may be
``faults``           keeps an unfixed page failing in every incremental build
``plan``             the builder that writes what the pages show and run
===================  ===================================================================================
"""

from __future__ import annotations

EXTENSIONS = (
    "records", "repository", "lock", "faults", "links", "folded", "highlighting", "literalinclude", "source_pages",
    "whole_sources", "release_roles", "interface_table", "error_index", "console", "diagram", "book", "gate",
    "marks", "copied", "transcripts", "bundles", "narrated", "length", "proven", "plan",
)  # fmt: skip
