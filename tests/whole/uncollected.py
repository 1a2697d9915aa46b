"""The first import of the process that servers are forked from: no garbage is collected while it reads all the others.

A fork shares that memory until it writes there, as a collection does everywhere; it collects only what is its own.
"""

import gc

gc.disable()
