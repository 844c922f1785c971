"""The page in the browser: ``sparsect app``.

A server on this machine draws the pages; what takes time runs in other processes, which can be killed.
"""
