"""The weaver: Sphinx extensions that tie every code block on a page to code that is compiled or executed.

=====================  ==============================================================================
``regions``            marked regions of the repository's sources
``torch_files``        regions of the installed torch, by pattern, and ``lock``, which pins their text
``literalinclude``     the strict directive of that name, with captions that say where the code stands
``whole_sources``      whole files, folded
``bundles``            the same as a download, with all that they need (``closure``)
``copied``             what the button of a listing copies, so that it stands on its own (``standalone``)
``interface_table``    tables checked against the interfaces of the installed torch, which ``headers`` reads
``console``            shell commands that are run and compared
``diagram``            pictures that take the colours of the theme
``gate``               refuses every code block that is neither included, executed nor compared
``source_pages``       one page per source file, and the links to its lines
``proof``              the doctest builder: a process per page, and ``proof.json`` written last
``faults``             keeps an unmended page red however often the incremental build runs
=====================  ==============================================================================
"""
