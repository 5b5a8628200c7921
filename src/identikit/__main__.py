"""`python -m identikit` is the command `identikit`."""

from identikit.cli import main

if __name__ == "__main__":
    main()
