"""`python -m hitnet`, the same as the command `hitnet`."""

from hitnet.cli import main

if __name__ == "__main__":
    main()
