"""``python -m sparsect`` is the command line."""

if __name__ == "__main__":
    # Not for worker processes, which load this module under another name.
    from .cli import main

    main()
