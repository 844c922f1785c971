"""The number of cores that this process may use."""

from __future__ import annotations

import os
from functools import lru_cache


@lru_cache
def cores() -> int:
    """Count the cores that this process may use.

    Returns
    -------
    int
        The number of cores, within the limits set by the system, by a container or by the processor affinity.
    """
    # Imported on first use, because the import takes a tenth of a second.
    from joblib import cpu_count

    return int(cpu_count())


if hasattr(os, "register_at_fork"):
    # A program that forks may divide its cores among its processes.
    os.register_at_fork(after_in_child=cores.cache_clear)
